"""Products of two activations on wgmma."""
