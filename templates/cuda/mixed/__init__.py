"""Products of floating-point activations with narrow weights on tensor cores."""
