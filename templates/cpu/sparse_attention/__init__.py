"""Attention under sparse masks on a CPU."""
