"""Products with single weights on CUDA cores, alone or added to the sums of another kernel."""
