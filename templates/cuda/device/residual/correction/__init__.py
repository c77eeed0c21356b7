"""Kernels that put the result together: of a product and of what lists or whole products add."""
