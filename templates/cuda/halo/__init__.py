"""Convolutions on wgmma that keep a tile's input, its halo included, in shared memory."""
