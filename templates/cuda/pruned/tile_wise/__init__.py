"""Products with tile-wise sparse weights: tiles gather the rows of x that they keep."""
