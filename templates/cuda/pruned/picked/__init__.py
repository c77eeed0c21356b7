"""Tile-wise products that read x as it lies: whole boxes by TMA, of which each tile picks its k."""
