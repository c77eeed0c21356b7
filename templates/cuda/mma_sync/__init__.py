"""Convolution on the tensor cores of every GPU since Turing, by mma.sync."""
