"""Kernels on a CPU that memory limits: pools, sums, concatenations, conversions."""
