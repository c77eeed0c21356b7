"""Convolutions without tensor cores: a thread computes outputs of its own."""
