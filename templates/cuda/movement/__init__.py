"""Kernels on CUDA that memory limits: pools, sums, concatenations, conversions, transpositions."""
