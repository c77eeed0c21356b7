"""Quantisation of models: of float32 by onnxruntime, and of 8 bits to 4."""
