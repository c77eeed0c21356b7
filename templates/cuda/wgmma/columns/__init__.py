"""Tile-wise weights as dense ones of the columns that are left."""
