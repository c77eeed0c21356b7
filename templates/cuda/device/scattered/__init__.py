"""Rows of y whose columns are some of those of a product, put together word by word."""
