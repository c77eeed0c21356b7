"""Register tiles of float32 over x and weights that are widened on their way.

A task holds its rows of x in float32; a tile of weights is widened some rows at a time, then
multiplied with all of them. Sums stay in a cache between two such turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.floats import narrowed, widened
from autoq.templates.cpu.vector import cast, for_chunks, held, load, loop, splat, store
from autoq.templates.epilogue.cpu_activation import activated
from autoq.templates.operators.float_gemm import FloatGemm

_WIDEST = 16


@dataclass(frozen=True)
class MixedTiling:
    """How a product is cut: blocks of rows, tiles of columns, turns along k.

    The last block moves back over rows that others compute too; a block's rows are padded to whole
    register tiles.
    """

    workload: FloatGemm
    lanes: int
    tile_rows: int
    vectors: int
    block_rows: int
    depth: int

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.lanes * self.vectors

    @property
    def column_tiles(self) -> int:
        """Tiles along n."""
        return -(-self.workload.n // self.columns)

    @property
    def blocks(self) -> int:
        """Blocks of rows."""
        return -(-self.workload.m // self.block_rows)

    @property
    def row_tiles(self) -> int:
        """Register tiles of a block."""
        return -(-self.block_rows // self.tile_rows)

    @property
    def weight_dtype(self) -> str:
        """How packed weights are stored: less their zero points, a value a byte at least."""
        if not self.workload.quantised:
            return self.workload.weight_dtype
        if self.workload.zero_points:
            return "int16"
        return {"int4": "int8", "uint4": "uint8"}.get(
            self.workload.weight_dtype, self.workload.weight_dtype
        )


def emit_block(
    tiling: MixedTiling, buffers: Mapping[str, Buffer], first: Expr, share: Expr, shares: int
) -> None:
    """Rows `first` and on of y, in the tiles of columns of one of so many shares."""
    workload, columns = tiling.workload, tiling.columns
    rows = tiling.row_tiles * tiling.tile_rows
    x = T.alloc_buffer((rows * workload.k,), "float32")
    sums = T.alloc_buffer((rows * columns,), "float32")
    weights = T.alloc_buffer((tiling.depth * columns,), "float32")
    _widen_rows(tiling, buffers["x"], first, x)
    each = -(-tiling.column_tiles // shares)
    with loop(each) as index:
        tile = T.bind(T.min(share * each + index, tiling.column_tiles - 1))
        zeros = splat(T.float32(0), tiling.lanes)
        with loop(rows * tiling.vectors) as vector:
            store(sums, vector * tiling.lanes, zeros, tiling.lanes)
        turns, rest = divmod(workload.k, tiling.depth)
        with loop(turns) as turn:
            start = T.bind(turn * tiling.depth)
            _widen_weights(tiling, buffers, tile, start, tiling.depth, weights)
            _multiply(tiling, x, weights, sums, start, tiling.depth)
        if rest:
            start = T.int32(turns * tiling.depth)
            _widen_weights(tiling, buffers, tile, start, rest, weights)
            _multiply(tiling, x, weights, sums, start, rest)
        _emit_outputs(tiling, buffers, sums, first, tile)


def _widen_rows(tiling: MixedTiling, x: Buffer, first: Expr, wide: Buffer) -> None:
    """The block's rows in float32, and zeros up to whole register tiles."""
    k = tiling.workload.k

    def chunk(at: Expr | int, lanes: int) -> None:
        value = widened(load(x, first * k + at, lanes), tiling.workload.in_dtype, lanes)
        store(wide, at, value, lanes)

    for_chunks(tiling.block_rows * k, _WIDEST, chunk)
    padding = (tiling.row_tiles * tiling.tile_rows - tiling.block_rows) * k

    def clear(at: Expr | int, lanes: int) -> None:
        store(wide, tiling.block_rows * k + at, splat(T.float32(0), lanes), lanes)

    for_chunks(padding, _WIDEST, clear)


def _widen_weights(
    tiling: MixedTiling, buffers: Mapping[str, Buffer], tile: Expr, start: Expr, depth: int,
    wide: Buffer,
) -> None:  # fmt: skip
    """Rows `start` and on of a weight tile in float32, times their group's scale."""
    workload, columns, lanes = tiling.workload, tiling.columns, tiling.lanes
    base = T.bind((tile * workload.k + start) * columns)
    for vector in range(tiling.vectors):
        scale = None
        if workload.group:
            at = (tile * workload.groups + start // workload.group) * columns
            scale = held(load(buffers["scale"], at + vector * lanes, lanes), lanes)
        with loop(depth) as row:
            at = row * columns + vector * lanes
            value = load(buffers["weight"], base + at, lanes)
            if workload.quantised:
                value = cast(value, "float32", lanes)
            else:
                value = widened(value, workload.weight_dtype, lanes)
            store(wide, at, value if scale is None else value * scale, lanes)


def _multiply(
    tiling: MixedTiling, x: Buffer, weights: Buffer, sums: Buffer, start: Expr, depth: int
) -> None:
    """Adds the products of some rows of the weight tile to the sums of all register tiles."""
    lanes, k = tiling.lanes, tiling.workload.k
    rows, vectors = range(tiling.tile_rows), range(tiling.vectors)
    with loop(tiling.row_tiles) as row_tile:
        first = T.bind(row_tile * tiling.tile_rows)
        registers = [[T.alloc_buffer((lanes,), "float32") for _ in vectors] for _ in rows]

        def place(row: int, vector: int, first: Expr = first) -> Expr:
            return (first + row) * tiling.columns + vector * lanes

        for row in rows:
            for vector in vectors:
                store(registers[row][vector], 0, load(sums, place(row, vector), lanes), lanes)
        with loop(depth) as step:
            columns = [
                T.bind(load(weights, step * tiling.columns + vector * lanes, lanes))
                for vector in vectors
            ]
            for row in rows:
                factor = T.bind(splat(x[(first + row) * k + start + step], lanes))
                for vector in vectors:
                    register = registers[row][vector]
                    total = load(register, 0, lanes) + factor * columns[vector]
                    store(register, 0, total, lanes)
        for row in rows:
            for vector in vectors:
                store(sums, place(row, vector), load(registers[row][vector], 0, lanes), lanes)


def _emit_outputs(
    tiling: MixedTiling, buffers: Mapping[str, Buffer], sums: Buffer, first: Expr, tile: Expr
) -> None:
    """From a block's sums to its outputs."""
    workload, lanes, columns = tiling.workload, tiling.lanes, tiling.columns
    y, n = buffers["y"], workload.n
    with T.grid(tiling.block_rows, tiling.vectors) as (row, vector):
        inside = T.bind(vector * lanes)
        column = T.bind(tile * columns + inside)
        value = load(sums, row * columns + inside, lanes)
        if workload.quantised and not workload.group:
            value = value * load(buffers["scale"], column, lanes)
        value = value + load(buffers["bias"], column, lanes)
        value = activated(value, workload.activation, lanes)
        value = narrowed(value, workload.out_dtype, lanes)
        if not workload.weight_left and n % columns == 0:
            store(y, (first + row) * n + column, value, lanes)
        else:
            _store_lanes(tiling, y, first + row, column, value)


def _store_lanes(tiling: MixedTiling, y: Buffer, row: Expr, column: Expr, value: Expr) -> None:
    """One by one, where they are not next to each other or beyond the last column."""
    workload = tiling.workload
    line = T.alloc_buffer((tiling.lanes,), y.dtype)
    store(line, 0, value, tiling.lanes)
    with loop(tiling.lanes) as lane, T.If(column + lane < workload.n), T.Then():
        at = row * workload.n + column + lane
        if workload.weight_left:
            at = (column + lane) * workload.m + row
        store(y, at, line[lane], 1)
