"""CUDA source of the fused epilogue, for every way in which kernels hold their values."""
