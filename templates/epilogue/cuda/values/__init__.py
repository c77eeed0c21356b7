"""CUDA source for values: read as floats, rounded, clamped, looked up, packed into words."""
