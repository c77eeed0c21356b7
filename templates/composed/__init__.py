"""Operators computed by templates of others: what they hand on, and constants."""
