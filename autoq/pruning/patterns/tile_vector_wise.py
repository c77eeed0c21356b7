"""Tile-vector-wise pruning (TVW): n of m consecutive surviving rows of each tile, algorithm 3."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from autoq.pruning.patterns.tile_wise import tile_wise
from autoq.pruning.patterns.vector_wise import keep_in_vectors
from autoq.pruning.ranking import Bounds
from autoq.pruning.ties import NO_TIES, Ties
from autoq.templates.sparse.pruned_matrix import Tile, TileWise, Vector


def tile_vector_wise(
    scores: Sequence[np.ndarray],
    sparsity: float,
    bounds: Sequence[Bounds],
    granularity: int,
    vector: Vector,
    ties: Ties = NO_TIES,
) -> list[TileWise]:
    """Tiles whose columns keep `vector.kept` of every `vector.of` consecutive surviving rows.

    A tile of fewer rows than a vector keeps at least one weight of each column.
    """
    before = [Bounds(_before(one.least, vector), _before(one.most, vector)) for one in bounds]
    share = _before(sparsity, vector)
    tiles = tile_wise(scores, share, before, granularity, ties=ties)
    return [
        dataclasses.replace(
            made, vector=vector, tiles=tuple(_kept(one, tile, vector) for tile in made.tiles)
        )
        for made, one in zip(tiles, scores, strict=True)
    ]


def _before(sparsity: float, vector: Vector) -> float:
    """The sparsity of tiles that comes to `sparsity` with their vectors: 1 - 2 (1 - S) for 2:4."""
    return min(1.0, max(0.0, 1 - (1 - sparsity) / vector.share))


def _kept(scores: np.ndarray, tile: Tile, vector: Vector) -> Tile:
    chosen = scores[np.ix_(tile.rows, tile.columns)]
    kept = keep_in_vectors(chosen, vector)
    empty = np.flatnonzero(~kept.any(axis=0))
    kept[chosen[:, empty].argmax(axis=0), empty] = True
    return Tile(tile.columns, tile.rows, kept)
