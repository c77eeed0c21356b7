"""The classes of a weight's zeros that kernels make use of, recognised from the weight alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autoq.templates.operators.spmm import SHORT_VECTORS, VECTORS
from autoq.templates.sparse.sparsity import TILES_AND_ELEMENTS, TWO_FOUR_TILES, Sparsity
from autoq.templates.sparse.suited import suited_vector
from autoq.templates.sparse.tiles import FULL, GRANULARITIES, beside_tiles
from autoq.templates.sparse.two_four import GROUP, group_starts, is_two_four

MOST_STORED = 0.5
"""The largest share of a weight that a product in vectors multiplies by: above it no kernel beats a
dense one."""

_NARROW = 32
"""Vectors up to which a weight that fits them is not looked at as tiles of as many columns."""

_FULL_VECTORS = 0.8
"""The share of nonzero values in the vectors of a weight that fits them."""

_HALF_FULL = 0.5
"""The least of them: what has fewer is a weight of single values, which vectors hold besides."""

_LEAST_FULL, _LEAST_FULL_NARROW = 0.2, 0.45
"""The least share of tiles that is not zero, and of tiles narrower than `_NARROW`.

Vectors of 4 of 16 leave a quarter of a tile. Narrow tiles hold single values at random places too.
"""

_MOST_FULL_TWO_FOUR = 0.55
"""The largest share of tiles that is not zero where two of four are: rows without any are none."""

_MOST_SHORT = 1.1
"""How many times as many rows as there are groups of four have room for, at most."""

_MOST_SINGLE = 0.75
"""The largest share of a weight that a product with single values multiplies by."""


def two_four_classes(weight: np.ndarray) -> Iterator[Sparsity]:
    """The class of 2:4 weights [n, k] where a weight is one."""
    if is_two_four(weight):
        yield Sparsity.two_four()


def tile_wise_classes(weight: np.ndarray) -> Iterator[Sparsity]:
    """The tile-wise classes that a weight [n, k] fits, the most suitable first.

    Tiles keep a tenth less than the weight at least; what they keep may have zeros, as where
    vectors are pruned within tiles, `_LEAST_FULL` of them at most. The widest tiles that store at
    most a tenth more than the narrowest come first, then narrower ones.
    """
    return _tiles(weight, _LEAST_FULL)


def two_four_tile_classes(weight: np.ndarray) -> Iterator[Sparsity]:
    """The classes of `tile_wise_classes` whose tiles are 2:4 along the rows that each tile keeps.

    Nearly all groups have four rows; narrow tiles have some rows less than what was pruned.
    """
    nonzero = np.asarray(weight).T != 0
    for found in tile_wise_classes(weight):
        tiles = found.tiles_of(weight)
        kept = sum(len(tile.rows) * len(tile.columns) for tile in tiles)
        if np.count_nonzero(nonzero) > _MOST_FULL_TWO_FOUR * kept:
            continue
        inside = (nonzero[np.ix_(tile.rows, tile.columns)] for tile in tiles)
        groups = sum(len(group_starts(own)) for own in inside)
        if GROUP * groups <= _MOST_SHORT * sum(len(tile.rows) for tile in tiles):
            yield Sparsity.of(TWO_FOUR_TILES, weight, found.granularity)


def full_tile_classes(weight: np.ndarray) -> Iterator[Sparsity]:
    """The tile-wise classes of a weight [n, k] whose tiles have hardly any zeros."""
    return _tiles(weight, FULL)


def _tiles(weight: np.ndarray, full: float) -> Iterator[Sparsity]:
    """Tile-wise classes of which narrow tiles are as full as single values in them never are."""
    nonzero = np.asarray(weight) != 0
    kept = nonzero[nonzero.any(axis=1)]
    found: list[tuple[int, int]] = []
    for granularity in sorted(GRANULARITIES):
        if granularity // 2 >= len(kept):
            break  # one tile has them all already
        area = _area(kept, granularity)
        if area > FULL * nonzero.size:
            break  # wider tiles keep at least as much
        found.append((area, granularity))
    count = int(np.count_nonzero(nonzero))
    for area, granularity in reversed(found):
        least = full if granularity >= _NARROW else max(full, _LEAST_FULL_NARROW)
        if FULL * area <= found[0][0] and count >= least * area:
            yield Sparsity.of_tiles(weight, granularity)


def _area(kept: np.ndarray, granularity: int) -> int:
    """Weights of tiles of `granularity` of the columns [columns, k]: those of their rows."""
    if not len(kept):
        return 0
    starts = np.arange(0, len(kept), granularity)
    rows = np.logical_or.reduceat(kept, starts, axis=0).sum(axis=1)
    return int(rows @ np.diff(starts, append=len(kept)))


def narrow_vectors(weight: np.ndarray) -> Iterator[Sparsity]:
    """The class of `vector_classes`, where its vectors are narrow and hold few zeros."""
    count = np.count_nonzero(weight)
    for found in vector_classes(weight):
        stored = found.structure.blocks * found.granularity
        if found.granularity <= _NARROW and count >= _FULL_VECTORS * stored:
            yield found


def vector_classes(weight: np.ndarray) -> Iterator[Sparsity]:
    """The class in the longest vectors that a weight [n, k] fits without many zeros in them.

    What they hold is at most `MOST_STORED` of the weight.
    """
    if np.count_nonzero(weight) > MOST_STORED * weight.size:
        return  # vectors hold what is not zero, at least; this takes no sorting
    lengths = [length for length in VECTORS if length >= SHORT_VECTORS[-1]]
    outputs, inputs = np.nonzero(np.asarray(weight))
    vector = suited_vector(outputs, inputs, weight.shape[1], lengths)
    found = Sparsity.of_vectors(weight, vector)
    stored = found.structure.blocks * vector
    if stored <= MOST_STORED * weight.size and len(outputs) >= _HALF_FULL * stored:
        yield found


def tile_and_element_classes(weight: np.ndarray) -> Iterator[Sparsity]:
    """The class in tiles and in single values beside them, of the widest tiles that are full.

    There are fewer values beside tiles than in them, and `_MOST_SINGLE` of the weight at most in
    both: narrow tiles of a weight with zeros by chance are fuller than the rest.
    """
    kept = np.count_nonzero(weight)
    for granularity in GRANULARITIES:
        tiles, single = beside_tiles(np.asarray(weight).T != 0, granularity)
        inside = sum(len(tile.rows) * len(tile.columns) for tile in tiles)
        beside = int(np.count_nonzero(single))
        full = kept - beside >= FULL * inside
        if 0 < beside < inside and full and inside + beside <= _MOST_SINGLE * weight.size:
            yield Sparsity.of(TILES_AND_ELEMENTS, weight, granularity)
            return


def element_classes(weight: np.ndarray) -> Iterator[Sparsity]:
    """The class of single values, where they are few enough for kernels that go by them."""
    if np.count_nonzero(weight) <= _MOST_SINGLE * weight.size:
        yield Sparsity.of_elements(weight)
