"""Attention that computes its queries, keys and values itself."""
