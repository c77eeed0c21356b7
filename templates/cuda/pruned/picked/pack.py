"""A tile-wise weight as the kernel that picks reads it: stages of weights with what is picked.

Tiles lie in groups side by side, of about as much work each, the longest group first. Between them
tiles write every column of y: a tile has the columns from its first one to the next tile's, some of
which no tile computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.mma.wgmma import K_BYTES
from autoq.templates.cuda.device.turned.row_steps import row_steps
from autoq.templates.cuda.pruned.picked.config import PickedTiling
from autoq.templates.cuda.pruned.picked.picks import pick_rows
from autoq.templates.cuda.pruned.picked.steps import NO_ROW, WORD_BYTES
from autoq.templates.cuda.pruned.tile_wise.outputs import first_columns
from autoq.templates.cuda.pruned.tile_wise.pack import Schedule
from autoq.templates.sparse.pruned_matrix import Tile
from autoq.templates.sparse.tiles import tiles_of
from autoq.templates.workload import Constants

_UNIT_BYTES = 16

StagesOf = Callable[[Any, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""The stages uint8 [stages, bytes] of a tiling's tile: of a weight [n, k], its columns and rows."""


def schedule_specs(tiling: PickedTiling) -> tuple[TensorSpec, ...]:
    """values, tiles, and places of columns or the entries of words."""
    stages = tiling.tiles * tiling.stages_of_tile
    return (
        TensorSpec("values", (stages, tiling.weight_bytes), "uint8"),
        TensorSpec("tiles", (tiling.tiles, 4), "int32"),
        tiling.places_spec,
    )


def pack_schedule(
    tiling: PickedTiling, constants: Constants, given: StagesOf | None = None
) -> Schedule:
    """values, tiles and places of a weight.

    values: of each stage columns of 16 bytes along k, one below the other for all columns of a
    tile, as wgmma reads them unswizzled, and behind them the words of `Picks`. tiles: the first
    stage, stages, then the first column of y and the number of columns, or the first of the words'
    entries and their number. given: what packs the stages of a tile in another way.
    """
    made_of = stages_of if given is None else given
    view = tiling.view
    weight = view.weight(constants)
    found = tiles_of(weight.T != 0, tiling.granularity)
    values, tiles, places = (np.zeros(spec.shape, spec.dtype) for spec in schedule_specs(tiling))
    order = _in_groups([len(tile.rows) for tile in found], tiling.groups, tiling.config.sides)
    starts, stage = first_columns(found, view.n), 0
    for number, index in enumerate(order):
        if index is None:
            continue
        own = found[index].columns
        made = made_of(tiling, weight, own, found[index].rows)
        values[stage : stage + len(made)] = made
        tiles[number] = stage, len(made), starts[index], starts[index + 1] - starts[index]
        stage += len(made)
    if not found:  # a tile without columns, so that kernels know no sums without products
        made = made_of(tiling, weight, np.zeros(0, np.int64), np.zeros(0, np.int64))
        values[: len(made)] = made
        tiles[0] = 0, len(made), 0, view.n
    nothing = Tile(np.zeros(0, np.int64), np.zeros(0, np.int64))
    ordered = [nothing if index is None else found[index] for index in order]
    columns = tiling.place(ordered, constants, tiles, places)
    return Schedule((values, tiles, places), columns)


def _in_groups(lengths: Sequence[int], groups: int, sides: int) -> list[int | None]:
    """Which tile each side of each group has, None for none, the longest group first.

    The longest tiles choose first, each the group that has the least to do.
    """
    held: list[list[int]] = [[] for _ in range(groups)]

    def work(group: Sequence[int]) -> int:
        return sum(lengths[index] for index in group)

    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        min((group for group in held if len(group) < sides), key=work).append(index)
    order: list[int | None] = []
    for group in sorted(held, key=work, reverse=True):
        order += [*group, *[None] * (sides - len(group))]
    return order


def stages_of(
    tiling: PickedTiling, weight: np.ndarray, columns: np.ndarray, kept: np.ndarray
) -> np.ndarray:
    """A tile's stages, uint8 [stages, bytes]; at least one, of zeros where nothing is kept."""
    depth, operand = tiling.config.depth, tiling.operand
    stages, row_bytes, bordered = tiling.k_stages, tiling.picked_bytes, tiling.bordered
    words: np.ndarray | None = None
    kept = np.asarray(kept, np.int64)
    if bordered is not None:
        picks = pick_rows(kept, operand.size, stages, row_bytes, depth)
        places = bordered.places(picks.words)
        words = np.stack([picks.how, places[..., 0] | places[..., 1] << 16], -1)
        rows = np.where(picks.rows < tiling.view.k, picks.rows, NO_ROW)
    elif tiling.config.turned:
        steps_of_rows = row_steps(kept, operand.size, tiling.view.k, tiling.config.x_stages)
        rows, words = steps_of_rows.rows, steps_of_rows.words
        rows = np.where(rows < tiling.view.k, rows, NO_ROW)
    elif tiling.config.picked:
        picks = pick_rows(operand.places(kept), operand.size, stages, row_bytes, depth)
        rows, words = operand.rows(picks.rows), picks.near(row_bytes // WORD_BYTES)
    else:
        every = np.arange(stages * row_bytes // operand.size)
        rows = operand.rows(every.reshape(stages * tiling.steps_of_stage, -1))
    steps = len(rows)
    filled = np.zeros((steps, rows.shape[1], tiling.width), weight.dtype)
    # [columns, steps, values] to [steps, values, columns].
    own = weight[np.ix_(columns, np.maximum(rows, 0).reshape(-1))].reshape(-1, *rows.shape)
    filled[:, :, : len(columns)] = own.transpose(1, 2, 0) * (rows != NO_ROW)[:, :, None]
    units = filled.reshape(steps, K_BYTES // _UNIT_BYTES, -1, tiling.width).transpose(0, 1, 3, 2)
    lying = np.ascontiguousarray(units).view(np.uint8).reshape(steps // depth, -1)
    made = np.zeros((len(lying), tiling.weight_bytes), np.uint8)
    made[:, : tiling.picks_at] = lying
    if words is not None:
        own_words = np.ascontiguousarray(words.astype("<u4")).view(np.uint8)
        end = tiling.picks_at + depth * tiling.picks_bytes
        made[:, tiling.picks_at : end] = own_words.reshape(len(lying), -1)
    return made
