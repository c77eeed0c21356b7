"""Kernels and artifacts on a GPU: the driver, launches, CUDA graphs."""
