"""The graph of a model and the passes that turn it into kernels."""
