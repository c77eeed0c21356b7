"""Tiles of columns that share their rows, and single weights beside them.

The pattern TEW of "Accelerating Sparse DNNs Based on Tiled GEMM" (Guo et al., arXiv:2402.10876).
"""

from __future__ import annotations

import numpy as np

from autoq.templates.sparse.patterns.elements import chosen, elements_of
from autoq.templates.sparse.patterns.pattern import Figures, Pattern
from autoq.templates.sparse.patterns.tile_wise import figures_of, in_tiles
from autoq.templates.sparse.tiles import beside_tiles, tiles_of


def parted(weight: np.ndarray, granularity: int) -> tuple[np.ndarray, np.ndarray]:
    """A weight [n, k] as the sum of one in tiles and of one of single weights."""
    weight = np.asarray(weight)
    _, beside = beside_tiles(weight.T != 0, granularity)
    single = np.where(beside.T, weight, np.zeros((), weight.dtype))
    return np.where(beside.T, np.zeros((), weight.dtype), weight), single


def _figures(weight: np.ndarray, granularity: int) -> Figures:
    tiles, single = parted(weight, granularity)
    own = figures_of(tiles_of(tiles.T != 0, granularity))
    return Figures(own.columns, own.structure, elements_of(single))


def _random(
    rng: np.random.Generator, figures: Figures, granularity: int, shape: tuple[int, int]
) -> np.ndarray:
    """Tiles of equal length, which stand out among single weights; tiles alone where they do not.

    What stands out is found again by the densities of columns.
    """
    assert figures.beside is not None
    n, k = shape
    count = max(1, -(-min(figures.columns, n) // granularity))
    length = min(figures.structure.longest_row, figures.structure.blocks // count, k)
    tiles = in_tiles(rng, figures, granularity, shape, np.full(count, length))
    kept = tiles | chosen(rng, figures.beside, ~tiles)
    return kept if figures.hold(_figures(kept, granularity)) else tiles


def _weights(figures: Figures, granularity: int, most: int) -> int:
    assert figures.beside is not None
    return min(most, figures.structure.blocks * granularity + figures.beside.blocks)


PATTERN = Pattern("tew", _figures, _random, _weights)
