"""Operators computed by templates of others: what they hand on, constants, and views of products."""
