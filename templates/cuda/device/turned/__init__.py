"""Rows with k outside as the left factor of wgmma, by ldmatrix.trans."""
