"""Kernel templates: workloads and targets to TVM PrimFuncs."""
