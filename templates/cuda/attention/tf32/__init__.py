"""Attention of float32 on tensor cores, whose factors are sums of two numbers of tf32."""
