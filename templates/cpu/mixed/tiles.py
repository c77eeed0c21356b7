"""Register tiles of float32 over x and weights that are widened on their way.

A task holds its rows of x in float32, those values of k next to each other that a turn multiplies:
rows of a power of two of bytes would all fall into the same few sets of the first cache. A tile of
weights is widened some rows at a time, then multiplied with all rows of x. Sums stay in a cache
between two such turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.floats import narrowed, widened
from autoq.templates.cpu.vector import for_chunks, load, loop, splat, store
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
    k_unit: int = 1

    @property
    def k(self) -> int:
        """Values of k up to a whole k_unit; those behind the workload's are 0 in x."""
        return -(-self.workload.k // self.k_unit) * self.k_unit

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
    def rows(self) -> int:
        """Rows of a block, up to whole register tiles."""
        return self.row_tiles * self.tile_rows

    def by_columns(self, rows: np.ndarray) -> np.ndarray:
        """Rows of n as the columns of tiles, zeros behind the last: [tiles, length, columns]."""
        whole = np.zeros((self.column_tiles * self.columns, rows.shape[1]), rows.dtype)
        whole[: len(rows)] = rows
        tiles = whole.reshape(self.column_tiles, self.columns, -1)
        return np.ascontiguousarray(tiles.transpose(0, 2, 1))


@dataclass(frozen=True)
class Turn:
    """Values `start` to `start + depth` of k, multiplied in one go, with a tile of columns."""

    tile: Expr
    number: Expr
    start: Expr
    depth: int


AddProducts = Callable[[Turn, Buffer], None]
"""Emits a turn's products, added to sums float32 [rows, columns]."""
Products = Callable[[Mapping[str, Buffer], Buffer], AddProducts]
"""What emits products of a kernel's buffers and of x, float32 as `wide_rows` gives it."""


def emit_block(
    tiling: MixedTiling, buffers: Mapping[str, Buffer], first: Expr, share: Expr, shares: int,
    products: Products,
) -> None:  # fmt: skip
    """Rows `first` and on of y, in the tiles of columns of one of so many shares."""
    columns = tiling.columns
    add_products = products(buffers, wide_rows(tiling, buffers["x"], first))
    sums = T.alloc_buffer((tiling.rows * columns,), "float32")
    begin, end = (T.bind(part * tiling.column_tiles // shares) for part in (share, share + 1))
    with T.serial(begin, end) as tile:
        zeros = splat(T.float32(0), tiling.lanes)
        with loop(tiling.rows * tiling.vectors) as vector:
            store(sums, vector * tiling.lanes, zeros, tiling.lanes)
        turns, rest = divmod(tiling.k, tiling.depth)
        with loop(turns) as turn:
            add_products(Turn(tile, turn, T.bind(turn * tiling.depth), tiling.depth), sums)
        if rest:
            number = T.int32(turns)
            add_products(Turn(tile, number, T.int32(turns * tiling.depth), rest), sums)
        _emit_outputs(tiling, buffers, sums, first, tile)


def wide_rows(tiling: MixedTiling, x: Buffer, first: Expr) -> Buffer:
    """A block's rows in float32, [turns, rows, depth], with zeros up to whole register tiles."""
    rows, depth, k = tiling.rows, tiling.depth, tiling.workload.k
    wide = T.alloc_buffer((rows * tiling.k,), "float32")

    def clear(base: Expr, count: int) -> None:
        def chunk(at: Expr | int, lanes: int) -> None:
            store(wide, base + at, splat(T.float32(0), lanes), lanes)

        for_chunks(count, _WIDEST, chunk)

    def of_turn(start: Expr | int, depth: int, given: int) -> None:
        def chunk(at: Expr | int, lanes: int) -> None:
            value = load(x, (first + row) * k + start + at, lanes)
            value = widened(value, tiling.workload.in_dtype, lanes)
            store(wide, start * rows + row * depth + at, value, lanes)

        with loop(tiling.block_rows) as row:
            for_chunks(given, _WIDEST, chunk)
            clear(start * rows + row * depth + given, depth - given)
        below = rows - tiling.block_rows
        clear(start * rows + tiling.block_rows * depth, below * depth)

    turns, rest = divmod(tiling.k, depth)
    padding = tiling.k - k
    with loop(turns - bool(padding and not rest)) as turn:
        of_turn(T.bind(turn * depth), depth, depth)
    if rest or padding:
        last = rest or depth
        of_turn(tiling.k - last, last, last - padding)
    return wide


def multiply(tiling: MixedTiling, turn: Turn, x: Buffer, weights: Buffer, sums: Buffer) -> None:
    """Adds the products of a turn, with weights [depth, columns], to sums [rows, columns]."""
    lanes, depth = tiling.lanes, turn.depth
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
                at = turn.start * tiling.rows + (first + row) * depth + step
                factor = T.bind(splat(x[at], lanes))
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
