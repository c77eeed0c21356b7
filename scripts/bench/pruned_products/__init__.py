"""What bench_tilewise.py measures and draws: products with pruned weights."""
