"""A tile-wise weight as the kernels read it: stages of gathered rows, their weights, and columns.

Tiles come longest first. A tile's rows fill whole stages; places that are left name its last row
again, with weights of 0. Between them tiles write every column of y: a tile has the columns from
its first one to the next tile's, some of which no tile computes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.mma.wgmma import K_BYTES
from autoq.templates.cuda.device.turned.fragment_source import BYTE_ORDER
from autoq.templates.cuda.pruned.tile_wise.config import UNIT_BYTES, TileWiseTiling
from autoq.templates.cuda.pruned.tile_wise.outputs import first_columns
from autoq.templates.sparse.tiles import tiles_of
from autoq.templates.workload import Constants


@dataclass(frozen=True)
class Schedule:
    """The arrays of `schedule_specs`, and which column of y each of the epilogue's terms is of.

    columns: int64 [terms]; n stands for none.
    """

    arrays: tuple[np.ndarray, ...]
    columns: np.ndarray


def schedule_specs(tiling: TileWiseTiling) -> tuple[TensorSpec, ...]:
    """values, rows, tiles, and places of columns or the entries of words."""
    view, stages = tiling.view, tiling.stages_of_tiles
    values = (stages, tiling.config.depth * 2, tiling.width, UNIT_BYTES // tiling.size)
    return (
        TensorSpec("values", values, view.workload.weight_dtype),
        TensorSpec("rows", (stages, tiling.stage_rows), "int32"),
        TensorSpec("tiles", (tiling.tiles, 4), "int32"),
        tiling.places_spec,
    )


def pack_schedule(tiling: TileWiseTiling, constants: Constants) -> Schedule:
    """values, rows, tiles and places of a weight.

    values: of each stage columns of 16 bytes along k, one below the other for all columns of a
    tile, as wgmma reads them unswizzled. tiles: the first stage, stages, then the first column of
    y and the number of columns, or the first of the words' entries and their number.
    """
    view = tiling.view
    weight = view.weight(constants)
    found = tiles_of(weight.T != 0, tiling.granularity)
    values, rows, tiles, places = (
        np.zeros(spec.shape, weight.dtype if spec.name == "values" else np.int32)
        for spec in schedule_specs(tiling)
    )
    order = sorted(range(len(found)), key=lambda index: -len(found[index].rows))
    starts, stage = first_columns(found, view.n), 0
    for number, index in enumerate(order):
        tile = found[index]
        count = -(-len(tile.rows) // tiling.stage_rows)
        tiles[number] = stage, count, starts[index], starts[index + 1] - starts[index]
        own = slice(stage, stage + count)
        padding = (0, count * tiling.stage_rows - len(tile.rows))
        rows[own] = np.pad(tile.rows, padding, mode="edge").reshape(count, -1)
        values[own] = _in_stages(tiling, tile.values(weight.T), count)
        stage += count
    if not found:  # a stage of zeros, so that kernels know no sums without products
        tiles[0] = 0, 1, 0, view.n
    ordered = [found[index] for index in order]
    columns = tiling.place(ordered, constants, tiles, places)
    return Schedule((values, rows, tiles, places), columns)


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
