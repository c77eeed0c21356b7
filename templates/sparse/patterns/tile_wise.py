"""Tiles of columns that share their rows: `pruned_matrix.TileWise`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.templates.sparse.patterns.pattern import Figures, Pattern
from autoq.templates.sparse.pruned_matrix import Tile
from autoq.templates.sparse.structure import Structure, bucket
from autoq.templates.sparse.tiles import tiles_of


def figures_of(tiles: Sequence[Tile]) -> Figures:
    """The figures of some tiles: rows are tiles, blocks their rows."""
    columns = sum(len(tile.columns) for tile in tiles)
    lengths = np.array([len(tile.rows) for tile in tiles], np.int64)
    return Figures(bucket(columns), Structure.of(lengths))


def _figures(weight: np.ndarray, granularity: int) -> Figures:
    return figures_of(tiles_of(np.asarray(weight).T != 0, granularity))


def in_tiles(
    rng: np.random.Generator, figures: Figures, granularity: int, shape: tuple[int, int],
    lengths: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """What random tiles keep; they are of some lengths, or of random ones."""
    n, k = shape
    columns = np.sort(rng.permutation(n)[: min(figures.columns, n)])
    kept = np.zeros(shape, bool)
    if lengths is None:
        tiles = -(-len(columns) // granularity)
        lengths = figures.structure.random_lengths(rng, max(1, tiles), k)
    for number, length in enumerate(lengths):
        own = columns[number * granularity :][:granularity]
        kept[np.ix_(own, rng.permutation(k)[:length])] = True
    return kept


def _weights(figures: Figures, granularity: int, most: int) -> int:
    return min(most, figures.structure.blocks * granularity)


PATTERN = Pattern("tw", _figures, in_tiles, _weights)
