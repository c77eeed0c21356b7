"""Tile-wise pruning (TW): columns, then rows of tiles of surviving columns, algorithm 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from autoq.pruning.ranking import Bounds, Units, select
from autoq.pruning.ties import NO_TIES, Joint, Ties
from autoq.templates.sparse.pruned_matrix import Tile, TileWise


def tile_wise(
    scores: Sequence[np.ndarray],
    sparsity: float,
    bounds: Sequence[Bounds],
    granularity: int,
    run: int = 1,
    ties: Ties = NO_TIES,
) -> list[TileWise]:
    """Tiles of matrices [k, n] whose columns are ranked together, and then whose rows are.

    Columns take 1 - sqrt(1 - sparsity), or a little less where no count of whole columns is that;
    the rows take what is left. A row is pruned in a tile of `granularity` surviving columns alone,
    or `run` consecutive rows are together. ties: what of it goes together, and what goes first.
    """
    columns = _columns(scores, sparsity, bounds, ties)
    dead = [np.zeros(len(one), bool) for one in scores]
    dead = ties.dead_rows(columns) if ties.dead_rows else dead
    tiles = [
        [surviving[i : i + granularity] for i in range(0, len(surviving), granularity)]
        for surviving in (np.flatnonzero(one).astype(np.int32) for one in columns)
    ]
    gone = sum(int((~kept).sum()) * len(one) for kept, one in zip(columns, scores, strict=True))
    wanted = sparsity * sum(one.size for one in scores) - gone
    kept = _rows(scores, tiles, bounds, run, dead, ties.shared_rows, wanted)
    return [
        TileWise(one.shape, granularity, _tiles(tiles[i], kept[i], one.shape[0], run), run)
        for i, one in enumerate(scores)
    ]


def _of_columns(sparsity: float, columns: float) -> float:
    """The share of columns that is pruned; at 0.5 as many rows of the others come to the rest."""
    return float(1 - (1 - sparsity) ** columns)


def _columns(
    scores: Sequence[np.ndarray], sparsity: float, bounds: Sequence[Bounds], ties: Ties
) -> list[np.ndarray]:
    """The columns that each matrix keeps, bool [n].

    Matrices of whose pruning columns take as much are ranked together.
    """
    grouped = {place for one in ties.joint for place in one.places}
    alone = (Joint((place,)) for place in range(len(scores)) if place not in grouped)
    groups: dict[float, list[Joint]] = {}
    for one in (*ties.joint, *alone):
        groups.setdefault(ties.columns_of(one.places[0]), []).append(one)
    kept: dict[int, np.ndarray] = {}
    for share, members in groups.items():
        units = [_column_units(scores, bounds, one, share) for one in members]
        total = sum(float(one.sizes.sum()) for one in units)
        chosen = select(units, _of_columns(sparsity, share) * total, at_most=True)
        for (places, run), some in zip(members, chosen, strict=True):
            kept |= dict.fromkeys(places, np.repeat(~some, run))
    return [kept[place] for place in range(len(scores))]


def _column_units(
    scores: Sequence[np.ndarray], bounds: Sequence[Bounds], joint: Joint, share: float
) -> Units:
    """The columns of matrices that keep the same ones, or runs of these."""
    places, run = joint
    rows = sum(scores[place].shape[0] for place in places)
    sums = np.add.reduce([scores[place].sum(axis=0) for place in places])
    means = sums.reshape(-1, run).sum(axis=1) / (rows * run)
    least = max(_of_columns(bounds[place].least, share) for place in places)
    most = min(_of_columns(bounds[place].most, share) for place in places)
    size = rows * run
    every = size * len(means)
    return Units(means, np.full(len(means), size), least * every, most * every)


def _rows(
    scores: Sequence[np.ndarray],
    tiles: Sequence[Sequence[np.ndarray]],
    bounds: Sequence[Bounds],
    run: int,
    dead: Sequence[np.ndarray],
    shared_rows: Sequence[Sequence[int]],
    wanted: float,
) -> list[np.ndarray]:
    """The runs of rows that each matrix keeps, bool [tiles * runs], once `wanted` are pruned.

    Matrices that share rows are ranked as one whose columns are theirs, in one tile.
    """
    shared = {place for places in shared_rows for place in places}
    alone = [place for place in range(len(scores)) if place not in shared]
    units = [_row_units(scores[i], tiles[i], bounds[i], run, dead[i]) for i in alone]
    for places in shared_rows:
        whole = np.concatenate([scores[place] for place in places], axis=1)
        starts = np.cumsum([0, *(scores[place].shape[1] for place in places)])
        columns = [
            one + start for start, i in zip(starts[:-1], places, strict=True) for one in tiles[i]
        ]
        limits = Bounds(*(
            sum(getattr(bounds[i], limit) * scores[i].size for i in places) / whole.size
            for limit in ("least", "most")
        ))  # fmt: skip
        every = np.logical_and.reduce([dead[place] for place in places])
        tile = [np.concatenate(columns)] if columns else []
        units.append(_row_units(whole, tile, limits, run, every))
    chosen = select(units, wanted)
    kept = {place: ~one for place, one in zip(alone, chosen[: len(alone)], strict=True)}
    for places, one in zip(shared_rows, chosen[len(alone) :], strict=True):
        kept |= {place: np.tile(~one, len(tiles[place])) for place in places}
    return [kept[place] for place in range(len(scores))]


class _Runs(NamedTuple):
    starts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, rows: int, run: int) -> _Runs:
        starts = np.arange(0, rows, run)
        return cls(starts, np.diff(starts, append=rows))


def _row_units(
    scores: np.ndarray, tiles: Sequence[np.ndarray], bound: Bounds, run: int, dead: np.ndarray
) -> Units:
    """The runs of rows of every tile, one tile after the other."""
    runs = _Runs.of(scores.shape[0], run)
    gone = scores.size - scores.shape[0] * sum(map(len, tiles))
    useless = np.minimum.reduceat(dead, runs.starts)
    means, sizes = [np.zeros(0)], [np.zeros(0)]
    for columns in tiles:
        size = runs.lengths * len(columns)
        mean = np.add.reduceat(scores[:, columns].sum(axis=1), runs.starts) / size
        means.append(np.where(useless, -1.0, mean))
        sizes.append(size)
    least, most = (max(0.0, share * scores.size - gone) for share in (bound.least, bound.most))
    return Units(np.concatenate(means), np.concatenate(sizes), least, most)


def _tiles(tiles: Sequence[np.ndarray], kept: np.ndarray, rows: int, run: int) -> tuple[Tile, ...]:
    runs = _Runs.of(rows, run)
    made = []
    for columns, mask in zip(tiles, kept.reshape(len(tiles), len(runs.starts)), strict=True):
        if mask.any():
            surviving = np.flatnonzero(np.repeat(mask, runs.lengths)).astype(np.int32)
            made.append(Tile(columns, surviving))
    return tuple(made)
