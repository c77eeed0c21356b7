"""Kernels that quantise float32 matrices by rows and columns, and keep what that leaves out."""
