"""Shared device-side pieces of the CUDA templates, one concept a file."""
