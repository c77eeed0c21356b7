"""Products of two activations on mma.sync: bytes, and 16-bit floats."""
