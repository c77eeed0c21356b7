"""Convolution on a CPU: one loop nest, and dot products for several instruction sets."""
