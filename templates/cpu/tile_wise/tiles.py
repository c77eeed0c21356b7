"""Tile-wise products on a CPU: for each tile the kept columns of some rows of x, then products.

A task has some rows of y. For each tile it copies the values of x that the tile keeps, one behind
the other, and multiplies them with the tile's weights; sums go to the columns of the tile, and the
epilogue follows when a row's sums are complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.dot import Dot
from autoq.templates.cpu.frame import bind_scalars, task_kernel
from autoq.templates.cpu.row_epilogue import finish_row
from autoq.templates.cpu.tile_wise.config import TileWiseCpuConfig
from autoq.templates.cpu.vector import for_chunks, load, loop, splat, store
from autoq.templates.epilogue import SCALAR_NAMES
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.workload import Constants

# Rows of copied values start a line further each, lest they share the sets of a cache.
_LINE = 64


@dataclass(frozen=True)
class TileWiseCpuTiling:
    """A tile-wise product cut by a configuration; steps are `dot.depth` rows of a tile."""

    workload: Gemm
    config: TileWiseCpuConfig
    dot: Dot

    @property
    def sparsity(self) -> Sparsity:
        found = self.workload.sparsity
        assert found is not None
        return found

    @property
    def integer(self) -> bool:
        return self.workload.in_dtype != "float32"

    @property
    def tiles(self) -> int:
        """Most tiles; an empty one where there is none."""
        return max(1, self.sparsity.tiles(self.workload.n))

    @property
    def longest(self) -> int:
        """Most steps of a tile."""
        rows = min(self.sparsity.structure.longest_row, self.workload.k)
        return max(1, -(-rows // self.dot.depth))

    @property
    def steps(self) -> int:
        """Most steps of all tiles."""
        filled = self.sparsity.structure.blocks // self.dot.depth + self.tiles
        return max(1, min(self.tiles * self.longest, filled))

    @property
    def parts(self) -> int:
        """Register tiles across a tile of the weight."""
        widest = min(self.sparsity.granularity, self.workload.n)
        return -(-widest // (self.dot.lanes * self.config.vectors))

    @property
    def width(self) -> int:
        """Columns of a tile, up to whole register tiles."""
        return self.parts * self.dot.lanes * self.config.vectors

    @property
    def rows(self) -> int:
        """Rows of a task."""
        return min(self.config.rows * self.config.blocks, self.workload.m)

    @property
    def padded_rows(self) -> int:
        """Rows up to whole register tiles."""
        return -(-self.rows // self.config.rows) * self.config.rows

    @property
    def copied_dtype(self) -> str:
        """The dtype of the copied values of x."""
        return "int8" if self.dot.depth > 1 else self.workload.in_dtype

    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of `pack`."""
        work, columns = self.workload, (self.workload.n,)
        specs = [
            TensorSpec("values", (self.steps, self.width, self.dot.depth), work.weight_dtype),
            TensorSpec("rows", (self.steps, self.dot.depth), "int32"),
            TensorSpec("starts", (self.tiles + 1,), "int32"),
            TensorSpec("columns", (self.tiles, self.width), "int32"),
            TensorSpec("bias", columns, self.dot.accumulator),
        ]
        if self.integer and work.epilogue.out_dtype != "int32":
            specs.append(TensorSpec("scale", columns, "float32"))
        if work.epilogue.float_bias:
            specs.append(TensorSpec("float_bias", columns, "float32"))
        return (*specs, TensorSpec("scalars", (len(SCALAR_NAMES),), "float32"))

    def pack(self, constants: Constants) -> tuple[np.ndarray, ...]:
        """Weights and rows of the steps, where tiles begin, their columns, and the epilogue's.

        Sums of columns that no tile has go behind the last column.
        """
        specs = {spec.name: spec for spec in self.specs()}
        weight = np.asarray(constants["weight"])
        made = {
            name: np.zeros(specs[name].shape, specs[name].dtype)
            for name in ("values", "rows", "starts")
        }
        columns = np.full(specs["columns"].shape, self.workload.n, np.int32)
        depth, step = self.dot.depth, 0
        for number, tile in enumerate(self.sparsity.tiles_of(weight)):
            count, kept = -(-len(tile.rows) // depth), tile.values(weight.T)
            filled = np.zeros((count * depth, self.width), weight.dtype)
            filled[: len(tile.rows), : len(tile.columns)] = kept
            own = slice(step, step + count)
            made["values"][own] = filled.reshape(count, depth, -1).transpose(0, 2, 1)
            padding = (0, count * depth - len(tile.rows))
            made["rows"][own] = np.pad(tile.rows, padding, mode="edge").reshape(count, depth)
            columns[number, : len(tile.columns)] = tile.columns
            step += count
            made["starts"][number + 1 :] = step
        bias = np.asarray(constants["bias"])
        if self.integer:
            fill = int(constants.get("x_zero_point", 0)) + self.dot.signed_shift
            bias = bias - fill * weight.astype(np.int64).sum(axis=1)
        given = {**constants, **made, "columns": columns, "bias": bias}
        return tuple(np.ascontiguousarray(given[name], spec.dtype) for name, spec in specs.items())


def kernel(tiling: TileWiseCpuTiling) -> PrimFunc:
    """The product; parameters x, residual?, row_scale?, those of `TileWiseCpuTiling.specs`, y."""
    work = tiling.workload
    specs = (*work.inputs, *tiling.specs(), *work.outputs)
    pitch = work.n + 1
    across = tiling.config.vectors * tiling.dot.lanes

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        first = T.bind(T.min(task * tiling.rows, work.m - tiling.rows))
        scalars = bind_scalars(buffers["scalars"], SCALAR_NAMES)
        kind = tiling.dot.accumulator
        sums = T.alloc_buffer((tiling.padded_rows * pitch,), kind)
        row_bytes = tiling.longest * tiling.dot.depth + _LINE
        copied = T.alloc_buffer((tiling.padded_rows * row_bytes,), tiling.copied_dtype)
        zero = T.cast(0, kind)
        for_chunks(tiling.padded_rows * pitch, 16, lambda at, n: store(sums, at, splat(zero, n), n))
        with loop(tiling.tiles) as tile:
            start = T.bind(buffers["starts"][tile])
            count = T.bind(buffers["starts"][tile + 1] - start)
            _copy(tiling, buffers, (copied, row_bytes), first, (start, count))
            with loop(tiling.parts) as part, loop(tiling.padded_rows // tiling.config.rows) as at:
                rows = T.bind(at * tiling.config.rows)
                registers = _multiply(
                    tiling, buffers["values"], (copied, row_bytes), rows, part, (start, count)
                )
                place = T.bind(tile * tiling.width + part * across)
                _scatter(tiling, registers, buffers["columns"], place, (sums, rows * pitch, pitch))
        with loop(tiling.rows) as row:
            at = T.bind(first + row)
            finish_row(work, buffers, (sums, row * pitch), at, scalars, tiling.dot.lanes)

    return task_kernel(specs, -(-work.m // tiling.rows), emit)


def _copy(
    tiling: TileWiseCpuTiling, buffers: Mapping[str, Buffer], copied: tuple[Buffer, int],
    first: Expr, steps: tuple[Expr, Expr],
) -> None:  # fmt: skip
    """The values of a task's rows of x that a tile keeps."""
    depth, k = tiling.dot.depth, tiling.workload.k
    to, row_bytes = copied
    start, count = steps
    with loop(tiling.rows) as row:
        base = T.bind((first + row) * k)
        with T.serial(0, count * depth) as index:
            value = buffers["x"][base + buffers["rows"][start * depth + index]]
            if depth > 1:
                value = T.reinterpret("int8", value)
                if tiling.dot.signed_shift:
                    value = value ^ T.int8(-128)
            T.buffer_store(to, value, [row * row_bytes + index])


def _multiply(
    tiling: TileWiseCpuTiling, values: Buffer, copied: tuple[Buffer, int], rows: Expr, part: Expr,
    steps: tuple[Expr, Expr],
) -> list[list[Buffer]]:  # fmt: skip
    """A register tile's sums, by rows and vectors."""
    dot, config = tiling.dot, tiling.config
    start, count = steps
    buffer, row_bytes = copied
    sums = [
        [T.alloc_buffer((dot.lanes,), dot.accumulator) for _ in range(config.vectors)]
        for _ in range(config.rows)
    ]
    zero = splat(T.cast(0, dot.accumulator), dot.lanes)
    for register in (register for row in sums for register in row):
        store(register, 0, zero, dot.lanes)
    with T.serial(0, count) as step:
        base = T.bind((start + step) * (tiling.width * dot.depth))
        weights = []
        for vector in range(config.vectors):
            column = (part * config.vectors + vector) * dot.lanes
            weights.append(T.bind(load(values, base + column * dot.depth, dot.weight_lanes)))
        for r, row in enumerate(sums):
            pixel = T.bind(dot.activation(buffer, (rows + r) * row_bytes + step * dot.depth))
            for register, weight in zip(row, weights, strict=True):
                total = dot.accumulate(load(register, 0, dot.lanes), pixel, weight)
                store(register, 0, total, dot.lanes)
    return sums


def _scatter(
    tiling: TileWiseCpuTiling, registers: list[list[Buffer]], columns: Buffer, place: Expr,
    sums: tuple[Buffer, Expr, int],
) -> None:  # fmt: skip
    """The sums of a register tile to their columns."""
    to, base, pitch = sums
    lanes = tiling.dot.lanes
    for r, row in enumerate(registers):
        for v, register in enumerate(row):
            with loop(lanes) as lane:
                at = base + r * pitch + columns[place + v * lanes + lane]
                T.buffer_store(to, register[lane], [at])
