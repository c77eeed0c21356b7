"""Rewrites of the graph: from ONNX's operations to fused ones, still in logical NCHW layout."""
