"""Convolutions without tensor cores, a thread an output."""
