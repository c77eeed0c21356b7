"""What bench_attention.py and bench_sparse_transformer.py measure and draw: sparse masks."""
