"""Patterns of zeros, one a module: what of a matrix goes together."""
