"""Patterns of zeros: what of a weight is known, and random weights that are like it."""
