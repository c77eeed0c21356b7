"""Register tiles of batched products: x as unsigned bytes, other as signed ones, by fours along k.

A task copies its rows of x, padded to whole vectors, and for each tile of columns arranges other
as `vpdpbusd` reads it. With u and s the bytes as they are multiplied and p and q their zero points,
`sum((u - p) (s - q)) = sum(u s) - p sum(s) - q sum(u) + k p q`: the sums of s are those of a
column, and the sums of u those of a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.dot import vnni
from autoq.templates.cpu.frame import bind_scalars
from autoq.templates.cpu.vector import load, loop, splat, store
from autoq.templates.epilogue import SCALAR_NAMES
from autoq.templates.epilogue.cpu import VectorEpilogue, VectorOperands
from autoq.templates.operators.batched_gemm import BatchedGemm

LANES = 16
_DEPTH = 4
_VECTOR_BYTES = 64
_DOT = vnni("uint8")


@dataclass(frozen=True)
class BatchedTiling:
    """How a pair's product is cut: blocks of rows, and in each of them register tiles.

    Blocks, tiles and vectors at a ragged end move back over outputs that others compute too.
    """

    workload: BatchedGemm
    block_rows: int
    tile_rows: int
    vectors: int

    @property
    def blocks(self) -> int:
        """Blocks of rows."""
        return -(-self.workload.m // self.block_rows)

    @property
    def steps(self) -> int:
        """Words of four values along k."""
        return -(-self.workload.k // _DEPTH)

    @property
    def row_bytes(self) -> int:
        """A row of x in the copy, padded with zeros."""
        return -(-self.workload.k // _VECTOR_BYTES) * _VECTOR_BYTES

    @property
    def column_tiles(self) -> int:
        """Tiles along n."""
        return -(-self.workload.n // (LANES * self.vectors))

    def start(self, vector: Expr) -> Expr:
        """The first column of a vector."""
        if self.workload.n % (LANES * self.vectors) == 0:
            return vector * LANES
        return T.min(vector * LANES, self.workload.n - LANES)


def emit_block(
    tiling: BatchedTiling, buffers: Mapping[str, Buffer], pair: Expr, first: Expr
) -> None:
    """Rows `first` and on of a pair's y."""
    workload, vectors = tiling.workload, tiling.vectors
    x = T.alloc_buffer((tiling.block_rows * tiling.row_bytes,), "uint8")
    row_sums = T.alloc_buffer((tiling.block_rows,), "int32")
    other = T.alloc_buffer((tiling.steps * vectors * _VECTOR_BYTES,), "int8")
    column_sums = T.alloc_buffer((vectors * LANES,), "int32")
    x_zero = T.bind(buffers["zero_points"][0])
    other_zero = T.bind(buffers["zero_points"][1])
    scalars = bind_scalars(buffers["scalars"], SCALAR_NAMES)
    with loop(tiling.block_rows) as row:
        _copy_row(tiling, buffers["x"], pair, first + row, x, row)
        total = _row_sum(tiling, x, row)
        store(row_sums, row, total * other_zero, 1)
    with loop(tiling.column_tiles) as tile:
        for vector in range(vectors):
            start = T.bind(tiling.start(tile * vectors + vector))
            _arrange(tiling, buffers["other"], pair, start, other, vector)
            total = _column_sums(tiling, other, vector)
            shift = splat(x_zero * other_zero * T.int32(workload.k), LANES)
            total = shift - total * splat(x_zero, LANES)
            store(column_sums, vector * LANES, total, LANES)
        with loop(-(-tiling.block_rows // tiling.tile_rows)) as index:
            row = T.min(index * tiling.tile_rows, tiling.block_rows - tiling.tile_rows)
            place = _Place(pair, first, T.bind(row), tile)
            _emit_tile(tiling, buffers, (x, row_sums, other, column_sums), place, scalars)


@dataclass(frozen=True)
class _Place:
    """A register tile: its pair, the block's first row, its own first row in it, its columns."""

    pair: Expr
    first: Expr
    row: Expr
    tile: Expr


def _copy_row(
    tiling: BatchedTiling, x: Buffer, pair: Expr, source: Expr, copy: Buffer, row: Expr
) -> None:
    """A row of x as unsigned bytes, and zeros behind it."""
    workload = tiling.workload
    start, step = workload.row_places(workload.x_order, pair)
    start, target = T.bind(start + source * step), T.bind(row * tiling.row_bytes)
    flip = workload.in_dtype == "int8"

    def moved(at: Expr | int, lanes: int) -> None:
        value = load(x, start + at, lanes)
        if flip:
            unsigned = T.reinterpret("uint8" if lanes == 1 else f"uint8x{lanes}", value)
            value = unsigned ^ splat(T.uint8(128), lanes)
        store(copy, target + at, value, lanes)

    whole = workload.k // _VECTOR_BYTES
    if whole:
        with loop(whole) as index:
            moved(index * _VECTOR_BYTES, _VECTOR_BYTES)
    done = whole * _VECTOR_BYTES
    if done < workload.k:
        zeros = splat(T.uint8(0), _VECTOR_BYTES)
        store(copy, target + done, zeros, _VECTOR_BYTES)
        lanes = _VECTOR_BYTES // 2
        while done < workload.k:
            if workload.k - done >= lanes:
                moved(done, lanes)
                done += lanes
            lanes //= 2


def _row_sum(tiling: BatchedTiling, x: Buffer, row: Expr) -> Expr:
    """The sum of a row of the copy."""
    sums = T.alloc_buffer((LANES,), "int32")
    store(sums, 0, splat(T.int32(0), LANES), LANES)
    ones = splat(T.int8(1), _VECTOR_BYTES)
    with loop(tiling.row_bytes // _VECTOR_BYTES) as index:
        values = load(x, row * tiling.row_bytes + index * _VECTOR_BYTES, _VECTOR_BYTES)
        signed = T.reinterpret(f"int8x{_VECTOR_BYTES}", values)
        store(sums, 0, _DOT.accumulate(load(sums, 0, LANES), signed, ones), LANES)
    lanes = LANES // 2
    while lanes:
        store(sums, 0, load(sums, 0, lanes) + load(sums, lanes, lanes), lanes)
        lanes //= 2
    return T.bind(sums[0])


def _arrange(
    tiling: BatchedTiling, other: Buffer, pair: Expr, start: Expr, tile: Buffer, vector: int
) -> None:
    """16 columns of other, from `start` on, as signed bytes [steps, vectors, 16, 4]."""
    workload = tiling.workload
    base, step = workload.row_places(workload.other_order, pair)
    flips = 0x80 if workload.other_dtype == "uint8" else 0
    whole, rest = divmod(workload.k, _DEPTH)
    stride = tiling.vectors * _VECTOR_BYTES

    def word_of(values: list[Expr], lanes: int) -> Expr:
        """Bytes, each in the lowest bits of a lane, one above the other."""
        word = values[0]
        for place, value in enumerate(values[1:], 1):
            word = word | (value << splat(T.int32(8 * place), lanes))
        flipped = sum(flips << (8 * place) for place in range(len(values)))
        return word ^ splat(T.int32(flipped - (flipped >> 31 << 32)), lanes) if flips else word

    def put(index: Expr | int, lane: Expr | int, word: Expr, lanes: int) -> None:
        bytes = T.reinterpret(f"int8x{4 * lanes}", word)
        at = index * stride + vector * _VECTOR_BYTES + lane * _DEPTH
        store(tile, at, bytes, 4 * lanes)

    def widened(at: Expr, lanes: int) -> Expr:
        value = T.reinterpret("uint8" if lanes == 1 else f"uint8x{lanes}", load(other, at, lanes))
        return T.cast(value, "int32" if lanes == 1 else f"int32x{lanes}")

    if workload.other_order.endswith("k"):
        with loop(LANES) as lane:
            row = T.bind(base + (start + lane) * step)
            if whole:
                with loop(whole) as index:
                    word = T.reinterpret("int32", load(other, row + index * _DEPTH, _DEPTH))
                    flipped = word ^ T.int32(-0x7F7F7F80) if flips else word
                    put(index, lane, flipped, 1)
            if rest:
                values = [widened(row + whole * _DEPTH + i, 1) for i in range(rest)]
                put(whole, lane, word_of(values, 1), 1)
        return
    if whole:
        with loop(whole) as index:
            row = T.bind(base + index * (_DEPTH * step) + start)
            put(index, 0, word_of([widened(row + i * step, LANES) for i in range(_DEPTH)], LANES),
                LANES)  # fmt: skip
    if rest:
        row = T.bind(base + whole * (_DEPTH * step) + start)
        put(whole, 0, word_of([widened(row + i * step, LANES) for i in range(rest)], LANES), LANES)


def _column_sums(tiling: BatchedTiling, tile: Buffer, vector: int) -> Expr:
    """Sums along k of 16 columns."""
    sums = T.alloc_buffer((LANES,), "int32")
    store(sums, 0, splat(T.int32(0), LANES), LANES)
    ones = splat(T.int8(1), _VECTOR_BYTES)
    with loop(tiling.steps) as index:
        at = (index * tiling.vectors + vector) * _VECTOR_BYTES
        values = load(tile, at, _VECTOR_BYTES)
        store(sums, 0, _DOT.accumulate(load(sums, 0, LANES), ones, values), LANES)
    return load(sums, 0, LANES)


def _emit_tile(
    tiling: BatchedTiling,
    buffers: Mapping[str, Buffer],
    scratch: tuple[Buffer, Buffer, Buffer, Buffer],
    place: _Place,
    scalars: Mapping[str, Expr],
) -> None:
    x, row_sums, other, column_sums = scratch
    rows, vectors = range(tiling.tile_rows), range(tiling.vectors)
    registers = [[T.alloc_buffer((LANES,), "int32") for _ in vectors] for _ in rows]
    for row in rows:
        for vector in vectors:
            store(registers[row][vector], 0, load(column_sums, vector * LANES, LANES), LANES)
    with loop(tiling.steps) as index:
        at = index * (tiling.vectors * _VECTOR_BYTES)
        columns = [
            T.bind(load(other, at + vector * _VECTOR_BYTES, _VECTOR_BYTES)) for vector in vectors
        ]
        for row in rows:
            start = (place.row + row) * tiling.row_bytes + index * _DEPTH
            word = T.bind(_DOT.activation(x, start))
            for vector in vectors:
                register = registers[row][vector]
                total = _DOT.accumulate(load(register, 0, LANES), word, columns[vector])
                store(register, 0, total, LANES)
    _emit_outputs(tiling, buffers, registers, row_sums, place, scalars)


def _emit_outputs(
    tiling: BatchedTiling,
    buffers: Mapping[str, Buffer],
    registers: list[list[Buffer]],
    row_sums: Buffer,
    place: _Place,
    scalars: Mapping[str, Expr],
) -> None:
    workload = tiling.workload
    epilogue = VectorEpilogue(workload.epilogue, workload.in_dtype, LANES, scalars)
    scale = splat(buffers["scale"][0], LANES) if "scale" in buffers else None
    residual, y = buffers.get("residual"), buffers["y"]
    base, step = workload.row_places(workload.y_order, place.pair)
    for row, vectors in enumerate(registers):
        shift = T.bind(row_sums[place.row + row])
        start = T.bind(base + (place.first + place.row + row) * step)
        for vector, register in enumerate(vectors):
            at = start + tiling.start(place.tile * tiling.vectors + vector)
            total = load(register, 0, LANES) - splat(shift, LANES)
            addend = None if residual is None else load(residual, at, LANES)
            store(y, at, epilogue.apply(total, VectorOperands(scale, residual=addend)), LANES)
