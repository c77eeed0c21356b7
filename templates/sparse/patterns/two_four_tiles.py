"""Tiles of columns that share their rows, of which groups of up to four keep two in each column.

The pattern TVW of "Accelerating Sparse DNNs Based on Tiled GEMM" (Guo et al., arXiv:2402.10876).
Groups run along the rows that a tile keeps, so that they are 2:4 when what it keeps is gathered.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.sparse.patterns.pattern import Figures, Pattern
from autoq.templates.sparse.patterns.tile_wise import figures_of, in_tiles
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.tiles import tiles_of
from autoq.templates.sparse.two_four import GROUP, KEPT, group_starts


def _figures(weight: np.ndarray, granularity: int) -> Figures:
    """Beside the tiles are their groups. Of a tile without zeros each two rows are one."""
    nonzero = np.asarray(weight).T != 0
    tiles = tiles_of(nonzero, granularity)
    groups = [len(group_starts(nonzero[np.ix_(tile.rows, tile.columns)])) for tile in tiles]
    found = figures_of(tiles)
    return Figures(found.columns, found.structure, Structure.of(np.array(groups, np.int64)))


def _random(
    rng: np.random.Generator, figures: Figures, granularity: int, shape: tuple[int, int]
) -> np.ndarray:
    """Tiles of random rows, as many as the groups allow when all but the last have four."""
    assert figures.beside is not None
    n, k = shape
    count = max(1, -(-min(figures.columns, n) // granularity))
    lengths = figures.structure.random_lengths(rng, count, k)
    left = figures.beside.blocks
    for number, length in enumerate(lengths):
        groups = min(-(-int(length) // GROUP), figures.beside.longest_row, left)
        lengths[number], left = min(int(length), GROUP * groups), left - groups
    kept = in_tiles(rng, figures, granularity, shape, lengths)
    for tile in tiles_of(kept.T, granularity):
        for start in range(0, len(tile.rows), GROUP):
            own = tile.rows[start : start + GROUP]
            places = rng.random((len(tile.columns), len(own))).argsort(axis=1)
            kept[np.ix_(tile.columns, own)] = places < KEPT
    return kept


def _weights(figures: Figures, granularity: int, most: int) -> int:
    assert figures.beside is not None
    rows = min(figures.structure.blocks, KEPT * figures.beside.blocks)
    return min(most, rows * granularity)


PATTERN = Pattern("tvw", _figures, _random, _weights)
