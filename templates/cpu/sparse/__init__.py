"""Products of sparse matrices on a CPU."""
