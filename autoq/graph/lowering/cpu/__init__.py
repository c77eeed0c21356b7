"""Fusions as kernels of a CPU: expressions over vectors."""
