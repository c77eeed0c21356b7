"""Block-wise pruning (BW): square blocks of weights, algorithm 2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.pruning.ranking import Bounds, Units, select
from autoq.templates.sparse.pruned_matrix import Blocks


def block_wise(
    scores: Sequence[np.ndarray], sparsity: float, bounds: Sequence[Bounds], granularity: int
) -> list[Blocks]:
    """The most important blocks of matrices [k, n], ranked together.

    Blocks are granularity x granularity, smaller ones at the far edges.
    """
    units, grids = [], []
    for one, bound in zip(scores, bounds, strict=True):
        rows, columns = (np.arange(0, extent, granularity) for extent in one.shape)
        sums = np.add.reduceat(np.add.reduceat(one, rows, axis=0), columns, axis=1)
        heights = np.diff(rows, append=one.shape[0])
        sizes = np.outer(heights, np.diff(columns, append=one.shape[1]))
        means = (sums / sizes).ravel()
        units.append(Units(means, sizes.ravel(), bound.least * one.size, bound.most * one.size))
        grids.append(sizes.shape)
    chosen = select(units, sparsity * sum(one.size for one in scores))
    return [
        Blocks(one.shape, granularity, ~pruned.reshape(grid))
        for one, grid, pruned in zip(scores, grids, chosen, strict=True)
    ]
