"""Sparse products of long vectors by wgmma over boxes of all rows of b."""
