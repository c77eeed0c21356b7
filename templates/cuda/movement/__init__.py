"""Kernels that memory limits: pools, sums, concatenations, conversions, formulas."""
