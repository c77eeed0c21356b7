"""Recognises in which patterns a matrix has been pruned, by its zeros alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from autoq.templates.sparse.pruned_matrix import (
    TWO_OF_FOUR,
    Blocks,
    Elements,
    Pruned,
    TileWise,
    Vector,
    Vectors,
)
from autoq.templates.sparse.tiles import (
    FULL,
    GRANULARITIES,
    beside_tiles,
    group_rows,
    runs_of,
    tiles_of,
)

VECTORS = (TWO_OF_FOUR, Vector(4, 16), Vector(8, 16))
"""What is looked for within tiles."""

RUNS = (64, 32, 16, 8)
"""Rows that are pruned together which are looked for."""

VECTOR_ROWS = (4, 16)
"""Rows of vectors that are looked for outside of tiles."""

_ORDER = {"bw": 0, "vw": 1, "trw": 2, "tw": 2, "tvw": 2, "tew": 3, "ew": 4}
"""Patterns from the most specific to the one that fits everything."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A pattern that a matrix fits: its kind, a key of `pattern.KINDS`, and its structure."""

    kind: str
    structure: Pruned


def recognise(
    weights: np.ndarray,
    granularities: Sequence[int] = GRANULARITIES,
    vectors: Sequence[Vector] = VECTORS,
    runs: Sequence[int] = RUNS,
) -> list[Fit]:
    """The patterns that the zeros of `weights` [k, n] fit, the most specific first.

    None where nothing is zero. A structure holds every weight that is not zero; a pattern fits
    where nine tenths of what its structure keeps are such, and less is kept than all. Of one kind,
    and among tiles, the structure that stores least comes first; of equal ones that of the largest
    granularity. Narrower tiles with vectors are left out unless they store a tenth less.
    """
    nonzero = np.asarray(weights) != 0
    if nonzero.all():
        return []
    found: list[Fit] = [Fit("ew", Elements(nonzero)), *_vectors(nonzero)]
    for granularity in sorted(granularities, reverse=True):
        found += _blocks(nonzero, granularity)
        for fit in _tiles(nonzero, granularity, vectors, runs):
            if fit.kind != "tvw" or _stores_less(fit.structure, found):
                found.append(fit)
    return sorted(found, key=_rank)


def _stores_less(made: TileWise, found: Sequence[Fit]) -> bool:
    """Whether tiles store less than wider ones of their vectors, by more than empty rows explain.

    Vectors leave some rows of narrow tiles empty by chance.
    """
    others = (fit.structure for fit in found if fit.kind == "tvw")
    return all(made.stored < FULL * one.stored for one in others if one.vector == made.vector)


def _rank(fit: Fit) -> tuple[int, int, bool, int]:
    """Single weights beside tiles count twice, since their places are stored too."""
    granularity = getattr(fit.structure, "granularity", 0)
    remainder = getattr(fit.structure, "remainder", None)
    single = 0 if remainder is None else int(np.count_nonzero(remainder))
    return _ORDER[fit.kind], fit.structure.stored + single, fit.kind == "tvw", -granularity


def _fits(nonzero: int, kept: float, size: int) -> bool:
    return nonzero >= FULL * kept and kept < size


def _vectors(nonzero: np.ndarray) -> Iterator[Fit]:
    k, n = nonzero.shape
    for rows in VECTOR_ROWS:
        whole = np.pad(nonzero, ((0, -k % rows), (0, 0))).reshape(-1, rows, n)
        vector = Vector(int(whole.sum(axis=1).max()), rows)
        if _fits(np.count_nonzero(nonzero), vector.share * nonzero.size, nonzero.size):
            yield Fit("vw", Vectors(nonzero, vector))


def _blocks(nonzero: np.ndarray, granularity: int) -> Iterator[Fit]:
    rows, columns = (np.arange(0, extent, granularity) for extent in nonzero.shape)
    kept = np.logical_or.reduceat(np.logical_or.reduceat(nonzero, rows, axis=0), columns, axis=1)
    k, n = nonzero.shape
    made = Blocks((k, n), granularity, kept)
    if _fits(np.count_nonzero(nonzero), made.stored, nonzero.size):
        yield Fit("bw", made)


def _tiles(
    nonzero: np.ndarray, granularity: int, vectors: Sequence[Vector], runs: Sequence[int]
) -> Iterator[Fit]:
    k, n = nonzero.shape
    tiles = tiles_of(nonzero, granularity)
    area = sum(len(tile.rows) * len(tile.columns) for tile in tiles)
    count = int(np.count_nonzero(nonzero))
    if _fits(count, area, nonzero.size):
        run = next((run for run in runs if runs_of(tiles, run, k)), 1)
        yield Fit("tw" if run == 1 else "trw", TileWise((k, n), granularity, tiles, run))
        return
    for vector in vectors:
        # Rows that vectors leave empty are not in these tiles, which makes them denser.
        density = count / area if area else 0.0
        if area < nonzero.size and FULL * vector.share <= density < 2 * vector.share:
            grouped = tuple(group_rows(nonzero, tile, vector) for tile in tiles)
            kept = vector.share * sum(len(tile.rows) * len(tile.columns) for tile in grouped)
            if _fits(count, kept, nonzero.size):
                yield Fit("tvw", TileWise((k, n), granularity, grouped, vector=vector))
    dense, remainder = beside_tiles(nonzero, granularity)
    inside = sum(len(tile.rows) * len(tile.columns) for tile in dense)
    beside = int(np.count_nonzero(remainder))
    if 0 < beside < inside and _fits(count - beside, inside, nonzero.size - beside):
        made = TileWise((k, n), granularity, dense, remainder=remainder)
        yield Fit("tew", made)
