"""A tile-wise weight as the kernels read it: stages of gathered rows, their weights, and columns.

Tiles come longest first. A tile's rows fill whole stages; places that are left name its last row
again, with weights of 0. Between them tiles write every column of y: a tile has the columns from
its first one to the next tile's, some of which no tile computes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.templates.cuda.device.mma.wgmma import K_BYTES
from autoq.templates.cuda.tile_wise.config import UNIT_BYTES, TileWiseTiling
from autoq.templates.sparse.pruned_matrix import Tile
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

BYTE_ORDER = (0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)
"""Of 16 gathered rows of bytes, which one ldmatrix.trans and a PRMT bring to each place of k."""


def slot(columns: np.ndarray) -> np.ndarray:
    """Where sums of a tile's columns lie: four columns of neighbouring lanes in different banks."""
    return columns ^ (columns >> 5 & 3)


def schedule_specs(tiling: TileWiseTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_schedule`."""
    view, stages = tiling.view, tiling.stages_of_tiles
    values = (stages, tiling.config.depth * 2, tiling.width, UNIT_BYTES // tiling.size)
    return (
        TensorSpec("values", values, view.workload.weight_dtype),
        TensorSpec("rows", (stages, tiling.stage_rows), "int32"),
        TensorSpec("tiles", (view.tiles, 4), "int32"),
        TensorSpec("places", (-(-view.n // 4) * 4,), "int32"),
    )


def pack_schedule(tiling: TileWiseTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """values, rows, tiles (first stage, stages, first column, their end) and places of columns.

    values: of each stage columns of 16 bytes along k, one below the other for all columns of a
    tile, as wgmma reads them unswizzled.
    """
    view = tiling.view
    weight = view.weight(constants)
    found = view.sparsity.tiles_of(weight)
    specs = schedule_specs(tiling)
    values = np.zeros(specs[0].shape, weight.dtype)
    rows = np.zeros(specs[1].shape, np.int32)
    tiles = np.zeros(specs[2].shape, np.int32)
    places = np.full(specs[3].shape, tiling.sum_pitch - 8, np.int32)
    order = sorted(range(len(found)), key=lambda index: -len(found[index].rows))
    starts = _first_columns(found, view.n)
    stage = 0
    for number, index in enumerate(order):
        tile = found[index]
        count = -(-len(tile.rows) // tiling.stage_rows)
        tiles[number] = stage, count, starts[index], starts[index + 1]
        own = slice(stage, stage + count)
        rows[own] = np.pad(
            tile.rows, (0, count * tiling.stage_rows - len(tile.rows)), mode="edge"
        ).reshape(count, -1)
        values[own] = _in_stages(tiling, tile.values(weight.T), count)
        places[tile.columns] = slot(np.arange(len(tile.columns)))
        stage += count
    if not found:
        tiles[0] = 0, 0, 0, view.n
    return values, rows, tiles, places


def _first_columns(tiles: Sequence[Tile], n: int) -> list[int]:
    """Where the columns that each tile writes begin, and the end of the last one's."""
    return [0, *(int(tile.columns[0]) for tile in tiles[1:]), n]


def _in_stages(tiling: TileWiseTiling, kept: np.ndarray, count: int) -> np.ndarray:
    """A tile's weights [rows, columns] as [stages, units of k, width, values of 16 bytes]."""
    rows, columns = kept.shape
    filled = np.zeros((count * tiling.stage_rows, tiling.width), kept.dtype)
    filled[:rows, :columns] = kept
    unit = UNIT_BYTES // tiling.size
    units = filled.reshape(-1, unit, tiling.width)
    if tiling.size == 1:
        units = units[:, list(BYTE_ORDER)]
    shape = (count, tiling.config.depth * K_BYTES // UNIT_BYTES, tiling.width, unit)
    return np.ascontiguousarray(units.transpose(0, 2, 1)).reshape(shape)
