"""Names and tables of the convolutions that bench_conv.py times."""
