"""The transformers that bench_transformers.py times, in ONNX and in torch, and their table."""
