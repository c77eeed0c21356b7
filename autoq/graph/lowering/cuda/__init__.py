"""Fusions as CUDA: formulas of elements and of rows."""
