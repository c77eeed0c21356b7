"""Products with tile-wise sparse weights: each tile gathers the rows of the activations it keeps."""
