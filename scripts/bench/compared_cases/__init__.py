"""What bench_conv.py and bench_gemm.py share: candidates, references, and rows of results."""
