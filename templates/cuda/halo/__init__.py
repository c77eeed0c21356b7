"""Convolutions on Hopper's tensor cores that keep a tile's input, its halo included, in shared memory."""
