"""NVIDIA's libraries, which autoq's kernels are timed beside."""
