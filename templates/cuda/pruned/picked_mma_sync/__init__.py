"""Tile-wise products that pick from x as it lies, on mma.sync."""
