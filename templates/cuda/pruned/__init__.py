"""Products with pruned weights: tiles, single weights, and both together."""
