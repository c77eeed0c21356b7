"""Pruning: which weights of a network to leave out, in patterns that kernels can make use of.

Patterns and algorithms are those of "Accelerating Sparse DNNs Based on Tiled GEMM" (Guo et al.,
arXiv:2402.10876). Weights are matrices [k, n], one or several that are ranked together.
"""
