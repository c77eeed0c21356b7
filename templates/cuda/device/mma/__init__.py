"""Tensor-core instructions as objects: what they multiply, where values lie, how to call them."""
