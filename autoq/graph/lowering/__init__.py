"""From fused operations to kernels over buffers, and PrimFuncs of what no template computes."""
