"""Operators computed by templates of others: what they hand on, constants, views of products."""
