"""Grouped and depthwise convolutions on CUDA: one kernel that multiplies a few channels a thread."""
