"""Products with tile-wise sparse weights: a tile multiplies those columns of x that it keeps."""
