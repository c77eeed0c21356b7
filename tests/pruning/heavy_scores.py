"""Scores of weights as trained networks have them, and the share that pruning took."""

from __future__ import annotations

import numpy as np


def scores_of(*shapes, seed=0):
    """Heavy tails, with rows and columns that matter more than others."""
    rng = np.random.default_rng(seed)
    return [
        rng.exponential(size=(k, n)) * rng.exponential(size=(k, 1)) * rng.exponential(size=n) + 1e-9
        for k, n in shapes
    ]


def share(pruned):
    masks = [one.mask for one in pruned]
    return 1 - sum(m.sum() for m in masks) / sum(m.size for m in masks)
