"""Attention under sparse masks on CUDA."""
