"""Tiles of a pruned matrix, found by what is not zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.templates.sparse.pruned_matrix import NO_ROW, Tile, Vector

GRANULARITIES = (256, 128, 64, 32, 16, 8)
"""Columns of tiles and extents of blocks that are looked for."""

FULL = 0.9
"""The least share of what a structure keeps that is not zero: some weights are zero by chance."""


def tiles_of(nonzero: np.ndarray, granularity: int) -> tuple[Tile, ...]:
    """Tiles of `granularity` columns that are not all zero, with the rows that are not in each."""
    return _tiles(nonzero, np.flatnonzero(nonzero.any(axis=0)), granularity, 0.0)


def runs_of(tiles: Sequence[Tile], run: int, rows: int) -> bool:
    """Whether the rows of all tiles are whole runs of `run` rows of the matrix's `rows`.

    Runs start at multiples of `run`; the last one may be shorter.
    """
    for tile in tiles:
        starts, counts = np.unique(tile.rows // run, return_counts=True)
        if not np.array_equal(counts, np.minimum(run, rows - starts * run)):
            return False
    return bool(tiles)


def group_rows(nonzero: np.ndarray, tile: Tile, vector: Vector) -> Tile:
    """The tile in groups of `vector.of` rows with at most `vector.kept` nonzeros a column.

    Consecutive rows go together as far as that allows, which gives the fewest groups. Rows of which
    a column keeps nothing were left out of the tile, so groups that are not the last may be short:
    NO_ROW fills them.
    """
    values = nonzero[np.ix_(tile.rows, tile.columns)]
    places: list[int] = []
    counts = np.zeros(values.shape[1], np.int64)
    held = 0
    for row in range(len(values)):
        after = counts + values[row]
        if held == vector.of or after.max(initial=0) > vector.kept:
            places += [NO_ROW] * (vector.of - held)
            after, held = values[row].astype(np.int64), 0
        places.append(row)
        counts, held = after, held + 1
    chosen = np.array(places, np.int64)
    rows = np.where(chosen == NO_ROW, NO_ROW, tile.rows[chosen]).astype(np.int32)
    kept = values[chosen] & (chosen != NO_ROW)[:, None]
    return Tile(tile.columns, rows, kept)


def beside_tiles(nonzero: np.ndarray, granularity: int) -> tuple[tuple[Tile, ...], np.ndarray]:
    """Dense tiles, and bool [k, n] what is not zero beside them.

    Columns that survive are those above the widest gap between the densities of columns; rows of a
    tile are those that are not zero in three quarters of its columns.
    """
    densities = np.count_nonzero(nonzero, axis=0) / len(nonzero)
    ordered = np.sort(np.append(densities, 0.0))
    gap = int(np.argmax(np.diff(ordered)))
    surviving = np.flatnonzero(densities > ordered[gap])
    tiles = _tiles(nonzero, surviving, granularity, 0.75)
    remainder = nonzero.copy()
    for tile in tiles:
        remainder[np.ix_(tile.rows, tile.columns)] = False
    return tiles, remainder


def _tiles(
    nonzero: np.ndarray, surviving: np.ndarray, granularity: int, density: float
) -> tuple[Tile, ...]:
    """Tiles of surviving columns, of the rows that are denser in them than `density`."""
    made = []
    for start in range(0, len(surviving), granularity):
        columns = surviving[start : start + granularity].astype(np.int32)
        kept = np.count_nonzero(nonzero[:, columns], axis=1)
        rows = np.flatnonzero(kept / len(columns) > density).astype(np.int32)
        if len(rows):
            made.append(Tile(columns, rows))
    return tuple(made)
