"""Convolutions on CUDA cores, a thread an output: what no tensor core computes."""
