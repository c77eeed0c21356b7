"""Sampled products of dense matrices on CUDA."""
