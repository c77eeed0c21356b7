"""Kernels and artifacts on this CPU: what it can do, its threads, calls."""
