"""Register tiles of batched products of float32.

For each tile of columns a task arranges `other` as [k, columns] once, which all its rows of x then
meet. Blocks, tiles and vectors at a ragged end move back over outputs that others compute too, with
the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.frame import bind_scalars
from autoq.templates.cpu.vector import load, loop, splat, store
from autoq.templates.epilogue import SCALAR_NAMES
from autoq.templates.epilogue.cpu import VectorEpilogue, VectorOperands
from autoq.templates.operators.batched_gemm import BatchedGemm


@dataclass(frozen=True)
class FloatTiling:
    """How a pair's product is cut: blocks of rows, and in each of them register tiles."""

    workload: BatchedGemm
    block_rows: int
    tile_rows: int
    vectors: int
    lanes: int

    @property
    def blocks(self) -> int:
        """Blocks of rows."""
        return -(-self.workload.m // self.block_rows)

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.lanes

    @property
    def column_tiles(self) -> int:
        """Tiles along n."""
        return -(-self.workload.n // self.width)

    def start(self, vector: Expr) -> Expr:
        """The first column of a vector."""
        if self.workload.n % self.width == 0:
            return vector * self.lanes
        return T.min(vector * self.lanes, self.workload.n - self.lanes)


def emit_block(tiling: FloatTiling, buffers: Mapping[str, Buffer], pair: Expr, first: Expr) -> None:
    """Rows `first` and on of a pair's y."""
    other = T.alloc_buffer((tiling.workload.k * tiling.width,), "float32")
    scalars = bind_scalars(buffers["scalars"], SCALAR_NAMES)
    with loop(tiling.column_tiles) as tile:
        _arrange(tiling, buffers["other"], pair, tile, other)
        with loop(-(-tiling.block_rows // tiling.tile_rows)) as index:
            row = T.min(index * tiling.tile_rows, tiling.block_rows - tiling.tile_rows)
            _emit_tile(tiling, buffers, other, (pair, T.bind(first + row), tile), scalars)


def _arrange(tiling: FloatTiling, other: Buffer, pair: Expr, tile: Expr, columns: Buffer) -> None:
    """The columns of a tile as [k, columns]."""
    workload, lanes = tiling.workload, tiling.lanes
    base, step = workload.row_places(workload.other_order, pair)
    for vector in range(tiling.vectors):
        start = T.bind(tiling.start(tile * tiling.vectors + vector))
        if workload.other_order.endswith("n"):
            with loop(workload.k) as k:
                value = load(other, base + k * step + start, lanes)
                store(columns, k * tiling.width + vector * lanes, value, lanes)
            continue
        with loop(lanes) as lane:
            source = T.bind(base + (start + lane) * step)
            with loop(workload.k) as k:
                target = k * tiling.width + vector * lanes + lane
                store(columns, target, other[source + k], 1)


def _emit_tile(
    tiling: FloatTiling, buffers: Mapping[str, Buffer], other: Buffer,
    place: tuple[Expr, Expr, Expr], scalars: Mapping[str, Expr],
) -> None:  # fmt: skip
    """A register tile; place: its pair, its first row and its tile of columns."""
    workload, lanes = tiling.workload, tiling.lanes
    pair, first, _ = place
    rows, vectors = range(tiling.tile_rows), range(tiling.vectors)
    sums = [[T.alloc_buffer((lanes,), "float32") for _ in vectors] for _ in rows]
    for register in (one for row in sums for one in row):
        store(register, 0, splat(T.float32(0), lanes), lanes)
    base, step = workload.row_places(workload.x_order, pair)
    starts = [T.bind(base + (first + row) * step) for row in rows]
    with loop(workload.k) as k:
        columns = [T.bind(load(other, k * tiling.width + v * lanes, lanes)) for v in vectors]
        for row in rows:
            factor = T.bind(splat(buffers["x"][starts[row] + k], lanes))
            for vector in vectors:
                total = load(sums[row][vector], 0, lanes)
                store(sums[row][vector], 0, total + factor * columns[vector], lanes)
    _emit_outputs(tiling, buffers, sums, place, scalars)


def _emit_outputs(
    tiling: FloatTiling, buffers: Mapping[str, Buffer], sums: list[list[Buffer]],
    place: tuple[Expr, Expr, Expr], scalars: Mapping[str, Expr],
) -> None:  # fmt: skip
    """The outputs of a register tile, by its sums."""
    workload, lanes = tiling.workload, tiling.lanes
    pair, first, tile = place
    epilogue = VectorEpilogue(workload.epilogue, workload.in_dtype, lanes, scalars)
    scale = VectorOperands(splat(buffers["scale"][0], lanes))
    base, step = workload.row_places(workload.y_order, pair)
    for row, registers in enumerate(sums):
        start = T.bind(base + (first + row) * step)
        for vector, register in enumerate(registers):
            at = start + tiling.start(tile * tiling.vectors + vector)
            store(buffers["y"], at, epilogue.apply(load(register, 0, lanes), scale), lanes)
