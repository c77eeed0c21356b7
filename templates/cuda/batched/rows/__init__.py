"""Batched products whose rows of x lie anywhere: x from registers, other turned, on wgmma."""
