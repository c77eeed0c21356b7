"""Batches of products of two activations on a CPU."""
