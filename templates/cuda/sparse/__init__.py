"""Products of sparse matrices on tensor cores."""
