"""Units of weights of several matrices in one ranking: which of them to prune."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Bounds:
    """The least and the most sparsity of a matrix."""

    least: float = 0.0
    most: float = 1.0


@dataclass(frozen=True, eq=False)
class Units:
    """What is pruned together, of one matrix.

    scores: [units], their importance. sizes: [units], their weights. least, most: how many weights
    of the matrix must and may be pruned.
    """

    scores: np.ndarray
    sizes: np.ndarray
    least: float
    most: float


def select(matrices: Sequence[Units], weights: float, *, at_most: bool = False) -> list[np.ndarray]:
    """Which units to prune, bool [units] of each matrix: the least important of all matrices.

    Their weights come as near to `weights` as the ranking and the bounds of each matrix allow,
    and do not exceed it where `at_most`. A matrix whose units are too large for its least is
    pruned beyond it, where that is allowed. Of equal scores the first is pruned first.
    """
    pruned = [np.zeros(len(units.scores), bool) for units in matrices]
    open_units: list[np.ndarray] = []
    total = 0.0
    for chosen, units in zip(pruned, matrices, strict=True):
        order = np.argsort(units.scores, kind="stable")
        sizes = units.sizes[order]
        sums = np.cumsum(sizes)
        allowed = sums <= units.most + _ROUNDING
        reached = sums if at_most else sums - sizes
        forced = allowed & (
            reached <= units.least + _ROUNDING if at_most else reached < units.least - _ROUNDING
        )
        chosen[order[forced]] = True
        total += float(sizes[forced].sum())
        open_units.append(order[allowed & ~forced])
    pairs = list(zip(matrices, open_units, strict=True))
    order = np.argsort(np.concatenate([one.scores[units] for one, units in pairs]), kind="stable")
    sizes = np.concatenate([one.sizes[units] for one, units in pairs])[order]
    taken = np.zeros(len(order), bool)
    taken[order[: _count(total + np.cumsum(sizes), total, weights, at_most)]] = True
    ends = np.cumsum([len(units) for units in open_units])[:-1]
    for chosen, units, some in zip(pruned, open_units, np.split(taken, ends), strict=True):
        chosen[units[some]] = True
    return pruned


_ROUNDING = 1e-6
"""Weights by which products of sparsities and counts may be off."""


def _count(sums: np.ndarray, start: float, wanted: float, at_most: bool) -> int:
    """How many units to take, whose weights with those at the start come to `sums`."""
    count = int(np.searchsorted(sums, wanted + _ROUNDING, side="right"))
    if at_most or count == len(sums):
        return count
    before = start if count == 0 else float(sums[count - 1])
    return count + (float(sums[count]) - wanted < wanted - before)
