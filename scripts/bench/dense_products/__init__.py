"""The plot of products of matrices, and times of peers that are quoted."""
