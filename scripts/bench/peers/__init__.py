"""The libraries and compilers that bench_conv.py measures beside autoq."""
