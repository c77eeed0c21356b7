"""What bench_movement.py times beside single kernels."""
