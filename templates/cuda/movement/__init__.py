"""Kernels that memory limits: pools, sums, concatenations, conversions, programs of steps."""
