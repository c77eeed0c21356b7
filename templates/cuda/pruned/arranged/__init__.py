"""Tiles whose k are put in an order in which their weight is 2:4."""
