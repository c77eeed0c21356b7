"""Attention on wgmma: tiles of keys and values by TMA, softmax beside the products of others."""
