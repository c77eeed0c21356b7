"""What bench_sparse.py measures and draws: products with sparse matrices."""
