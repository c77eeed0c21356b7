"""ONNX models that many tests share, and what onnxruntime makes of them."""
