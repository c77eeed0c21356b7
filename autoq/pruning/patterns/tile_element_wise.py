"""Tile-element-wise pruning (TEW): tiles and the best single weights beside them, algorithm 3."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from autoq.pruning.patterns.element_wise import element_wise
from autoq.pruning.patterns.tile_wise import tile_wise
from autoq.pruning.ranking import Bounds
from autoq.templates.sparse.pruned_matrix import TileWise


def tile_element_wise(
    scores: Sequence[np.ndarray],
    sparsity: float,
    bounds: Sequence[Bounds],
    granularity: int,
    delta: float,
) -> list[TileWise]:
    """Tiles of `delta` more sparsity than is asked for, and so many single weights besides.

    These are the most important of what the tiles leave out, of all matrices together.
    """
    wider = [Bounds(min(1, one.least + delta), min(1, one.most + delta)) for one in bounds]
    tiles = tile_wise(scores, min(1.0, sparsity + delta), wider, granularity)
    masks = [one.mask for one in tiles]
    outside = [np.where(mask, np.inf, one) for mask, one in zip(masks, scores, strict=True)]
    kept = element_wise(outside, sparsity, bounds)
    return [
        dataclasses.replace(one, remainder=all_kept.mask & ~mask)
        for one, mask, all_kept in zip(tiles, masks, kept, strict=True)
    ]
