"""What bench_residual.py measures, a module for each kind of table."""
