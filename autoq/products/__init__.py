"""Products of matrices from Python, outside any model."""
