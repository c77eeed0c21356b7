"""Rows of b that two blocks of a cluster share, each of a vector row of its own.

Rows that both have fill whole stages, which lie evenly among the others. They take turns: of every
second such stage one block gathers the rows and hands them to the other, of the rest the other.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.sparse.vector_matrix import VectorMatrix

GATHERED, HANDED_ON, RECEIVED = range(3)
"""How the rows of a stage come: from b, from b and on to the other block, from the other block."""


def share_rows(
    matrix: VectorMatrix, pairs: np.ndarray, rows: int, within: np.ndarray
) -> np.ndarray:
    """How the row of b of each vector comes, [vectors], for pairs of vector rows, [pairs, 2].

    within: [vectors], the place of each vector among those of its vector row, of stages of so many
    rows; replaced.
    """
    ways = np.full_like(within, GATHERED)
    for pair in pairs:
        own = [slice(*matrix.pointers[row : row + 2]) for row in pair]
        columns = [matrix.indices[vectors] for vectors in own]
        common = np.intersect1d(*columns, assume_unique=True)
        shared = len(common) // rows
        stages = -(-max(map(len, columns)) // rows)
        common = np.sort(common)[: shared * rows]
        shared_stages = (2 * np.arange(shared) + 1) * stages // max(1, 2 * shared)
        others = np.setdiff1d(np.arange(stages), shared_stages)
        of_shared, of_others = (
            (part[:, None] * rows + np.arange(rows)).reshape(-1) for part in (shared_stages, others)
        )
        for block, (vectors, named) in enumerate(zip(own, columns, strict=True)):
            is_shared = np.isin(named, common, assume_unique=True)
            places, way = np.empty_like(named), np.full_like(named, GATHERED)
            number = np.searchsorted(common, named[is_shared])
            places[is_shared] = of_shared[number]
            way[is_shared] = np.where(number // rows % 2 == block, HANDED_ON, RECEIVED)
            rank = np.argsort(np.argsort(named[~is_shared]))
            places[~is_shared] = of_others[rank]
            within[vectors], ways[vectors] = places, way
    return ways
