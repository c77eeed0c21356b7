"""A list to measure without looking back: fast by the model, and not the same guess over and over.

What a model errs in goes with the leaves that configurations share, so a list of its best is often
one guess many times. This one treats errors as a Gaussian process whose correlation is the share
of trees that put two configurations into the same leaf: each next place goes to the least of
prediction less deviation, given the errors of those before it (batched upper confidence bounds of
Desautels, Krause and Burdick, JMLR 2014).
"""

from __future__ import annotations

import numpy as np

_DEVIATION = 0.1
"""Of a prediction of log time, which a place may gain where nothing like it was taken yet."""

_OWN = 0.05
"""Share of an error's variance that no other configuration has."""

_BEST = 400


def spread_list(slowness: np.ndarray, leaves: np.ndarray, count: int) -> np.ndarray:
    """Rows of the next so many configurations, int64 [at most count].

    slowness: predicted log of the time, float64 [n]; leaves: of each tree, int [n, trees]. Only
    the best 400 are looked at.
    """
    rows = np.argsort(slowness, kind="stable")[:_BEST]
    means, own = slowness[rows], leaves[rows]
    count = min(count, len(rows))
    variance = np.full(len(rows), 1 + _OWN)
    factors = np.zeros((len(rows), count))
    taken = np.zeros(len(rows), bool)
    found = []
    for k in range(count):
        scores = means - _DEVIATION * np.sqrt(np.maximum(variance, 0))
        one = int(np.argmin(np.where(taken, np.inf, scores)))
        found.append(one)
        taken[one] = True
        shared = (own == own[one]).mean(axis=1)
        shared[one] += _OWN
        left = shared - factors[:, :k] @ factors[one, :k]
        factors[:, k] = left / np.sqrt(max(left[one], _OWN))
        variance = variance - factors[:, k] ** 2
    return rows[found]
