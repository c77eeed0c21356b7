"""Register tiles of sparse products: vectors of columns of y for the rows of one vector row.

A task takes some columns and some vector rows, one after another. Where that pays it first copies
its columns of b, which then lie together: rows of b that are a power of two apart share cache sets.
Steps of a vector row gather `depth` rows of b: one, widened to 32 bits, or four, whose bytes are
put together as `vpdpbusd` reads them, one of its factors unsigned and the other signed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.storage import value_dtype
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.floats import widened
from autoq.templates.cpu.frame import bind_scalars, task_kernel
from autoq.templates.cpu.vector import cast, load, loop, splat, store
from autoq.templates.epilogue import SCALAR_NAMES
from autoq.templates.epilogue.cpu import VectorEpilogue, VectorOperands
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.vector_matrix import VectorMatrix
from autoq.templates.workload import Constants

QUAD = 4
"""Rows of b of a step of `vpdpbusd`."""

_FLIPS = -0x7F7F7F80
"""Changes the sign bits of four bytes."""


@dataclass(frozen=True)
class SparseTiling:
    """A sparse product cut into tasks, tiles of `vectors` vectors of `lanes` columns, and steps.

    Vectors at a ragged end move back over columns that others compute too.
    """

    workload: Spmm
    rows: int
    vectors: int
    lanes: int
    depth: int
    copied: bool

    @property
    def row_tasks(self) -> int:
        return -(-self.workload.vector_rows // self.rows)

    @property
    def column_tasks(self) -> int:
        return -(-self.workload.n // (self.lanes * self.vectors))

    @property
    def steps(self) -> int:
        """Most steps of all vector rows."""
        rows, workload = self.workload.vector_rows, self.workload
        filled = (workload.structure.blocks + (self.depth - 1) * rows) // self.depth
        return max(1, min(rows * -(-workload.longest // self.depth), filled))

    @property
    def sum_dtype(self) -> str:
        """The dtype of sums, and of the factors that are added up in them."""
        return "float32" if self.workload.floating else "int32"

    @property
    def flips(self) -> bool:
        """Whether the sign bits of b are changed: its sign must not be that of the values."""
        return self.depth == QUAD and self.signed == (self.workload.in_dtype == "int8")

    @property
    def signed(self) -> bool:
        """Whether values are signed."""
        return self.workload.weight_dtype in ("int4", "int8")

    def column(self, task: Expr, vector: Expr | int) -> Expr:
        """The first column of a vector."""
        first = (task * self.vectors + vector) * self.lanes
        return T.min(first, self.workload.n - self.lanes)

    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of `pack`."""
        workload, rows = self.workload, (self.workload.m,)
        kind = "int32" if self.depth == QUAD else value_dtype(workload.weight_dtype)
        epilogue, scaled = workload.epilogue, workload.epilogue.out_dtype != "int32"
        return (
            TensorSpec("values", (self.steps, workload.vector), kind),
            TensorSpec("columns", (self.steps, self.depth), "int32"),
            TensorSpec("starts", (workload.vector_rows + 1,), "int32"),
            TensorSpec("bias", rows, self.sum_dtype),
            *((TensorSpec("scale", rows, "float32"),) if scaled else ()),
            TensorSpec("scalars", (len(SCALAR_NAMES),), "float32"),
            *((TensorSpec("float_bias", rows, "float32"),) if epilogue.float_bias else ()),
        )

    def pack(self, matrix: VectorMatrix, constants: Constants) -> tuple[np.ndarray, ...]:
        """Values and columns of the steps, the first step of each vector row, the epilogue's."""
        values, columns, starts = self._in_steps(matrix)
        bias = np.asarray(constants["bias"])
        if not self.workload.floating:
            zero_point = int(constants.get("b_zero_point", 0))
            if self.flips:
                zero_point += 128 if self.workload.in_dtype == "int8" else -128
            bias = bias - zero_point * matrix.row_sums()
        given = {**constants, "values": values, "columns": columns, "starts": starts, "bias": bias}
        return tuple(np.ascontiguousarray(given[spec.name], spec.dtype) for spec in self.specs())

    def _in_steps(self, matrix: VectorMatrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        counts = -(-matrix.lengths // self.depth)
        starts = np.concatenate([[0], np.cumsum(counts)])
        row = matrix.vector_row_of
        place = np.arange(len(row)) + (starts[:-1] * self.depth - matrix.pointers[:-1])[row]
        values = np.zeros((self.steps * self.depth, matrix.vector), matrix.values.dtype)
        columns = np.zeros(self.steps * self.depth, np.int32)
        values[place], columns[place] = matrix.values, matrix.indices
        if self.depth == QUAD:
            quads = values.reshape(self.steps, QUAD, -1).transpose(0, 2, 1)
            values = np.ascontiguousarray(quads).view(np.int32)[:, :, 0]
        return values, columns.reshape(self.steps, self.depth), starts


def kernel(tiling: SparseTiling) -> PrimFunc:
    """The product; parameters b, residual?, those of `SparseTiling.specs`, y."""
    workload = tiling.workload
    specs = (*workload.inputs, *tiling.specs(), *workload.outputs)

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        columns = T.bind(task // tiling.row_tasks)
        first = T.bind(task % tiling.row_tasks * tiling.rows)
        scalars = bind_scalars(buffers["scalars"], SCALAR_NAMES)
        panel = _emit_panel(tiling, buffers["b"], columns)
        with loop(tiling.rows) as index:
            row = T.bind(first + index)
            with T.If(row < workload.vector_rows), T.Then():
                sums = _emit_steps(tiling, buffers, row, panel)
                _emit_outputs(tiling, buffers, row, columns, (sums, scalars))

    return task_kernel(specs, tiling.row_tasks * tiling.column_tasks, emit)


@dataclass(frozen=True)
class _Panel:
    """Columns of b: where vectors of the first row start, and how far apart rows are."""

    values: Buffer
    starts: list[Expr]
    width: int


def _emit_panel(tiling: SparseTiling, b: Buffer, task: Expr) -> _Panel:
    """The columns of a task, copied or where they are."""
    workload, lanes, vectors = tiling.workload, tiling.lanes, range(tiling.vectors)
    starts = [T.bind(tiling.column(task, v)) for v in vectors]
    if not tiling.copied:
        return _Panel(b, starts, workload.n)
    width = tiling.vectors * lanes
    copy = T.alloc_buffer((workload.k * width,), workload.in_dtype)
    with loop(workload.k) as row:
        for v in vectors:
            columns = load(b, T.bind(row * workload.n + starts[v]), lanes)
            store(copy, row * width + v * lanes, columns, lanes)
    return _Panel(copy, [T.int32(v * lanes) for v in vectors], width)


def _emit_steps(
    tiling: SparseTiling, buffers: Mapping[str, Buffer], row: Expr, panel: _Panel
) -> list[list[Buffer]]:
    """The sums of a vector row by row and vector of columns."""
    workload, lanes = tiling.workload, tiling.lanes
    height, kind = workload.vector, tiling.sum_dtype
    zero = T.float32(0) if workload.floating else T.int32(0)
    sums = [[T.alloc_buffer((lanes,), kind) for _ in panel.starts] for _ in range(height)]
    for registers in sums:
        for register in registers:
            store(register, 0, splat(zero, lanes), lanes)
    begin = T.bind(buffers["starts"][row])
    count = T.bind(buffers["starts"][row + 1] - begin)
    with T.serial(0, count) as index:
        step = T.bind(begin + index)
        places = [
            T.bind(buffers["columns"][step * tiling.depth + i] * panel.width)
            for i in range(tiling.depth)
        ]
        gathered = [
            T.bind(_gathered(tiling, panel.values, [place + start for place in places]))
            for start in panel.starts
        ]
        for r in range(height):
            value = T.bind(splat(_factor(tiling, buffers["values"][step * height + r], 1), lanes))
            for register, columns in zip(sums[r], gathered, strict=True):
                store(register, 0, _added(tiling, load(register, 0, lanes), columns, value), lanes)
    return sums


def _factor(tiling: SparseTiling, value: Expr, lanes: int) -> Expr:
    """A value of either side as it is multiplied."""
    if tiling.workload.floating:
        return widened(value, tiling.workload.in_dtype, lanes)
    return cast(value, "int32", lanes)


def _gathered(tiling: SparseTiling, b: Buffer, places: list[Expr]) -> Expr:
    """Columns of the rows of b that start at some places, one lane each."""
    lanes = tiling.lanes
    if tiling.depth == 1:
        return _factor(tiling, load(b, places[0], lanes), lanes)
    words = [
        T.cast(T.reinterpret(f"uint8x{lanes}", load(b, place, lanes)), f"int32x{lanes}")
        for place in places
    ]
    word = words[0]
    for i, other in enumerate(words[1:], 1):
        word = word | (other << splat(T.int32(8 * i), lanes))
    return word ^ splat(T.int32(_FLIPS), lanes) if tiling.flips else word


def _added(tiling: SparseTiling, total: Expr, columns: Expr, value: Expr) -> Expr:
    """Sums and a step of them."""
    if tiling.depth == 1:
        return total + columns * value
    factors = [T.reinterpret(f"int8x{QUAD * tiling.lanes}", each) for each in (columns, value)]
    if not tiling.signed:  # the first factor is the unsigned one
        factors.reverse()
    return T.call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.vpdpbusd.512", total, *factors)


def _emit_outputs(
    tiling: SparseTiling,
    buffers: Mapping[str, Buffer],
    row: Expr,
    task: Expr,
    work: tuple[list[list[Buffer]], Mapping[str, Expr]],
) -> None:
    """From the sums of a vector row to its outputs.

    They go through memory, so that the epilogue stands in the code once.
    """
    workload, lanes, vectors = tiling.workload, tiling.lanes, tiling.vectors
    registers, scalars = work
    sums = T.alloc_buffer((workload.vector * vectors * lanes,), tiling.sum_dtype)
    for r, of_row in enumerate(registers):
        for v, register in enumerate(of_row):
            store(sums, (r * vectors + v) * lanes, load(register, 0, lanes), lanes)
    epilogue = VectorEpilogue(workload.epilogue, workload.in_dtype, lanes, scalars)
    residual = buffers.get("residual")
    with loop(workload.vector) as r:
        y_row = T.bind(row * workload.vector + r)
        with T.If(y_row < workload.m), T.Then():
            terms = {
                name: splat(T.bind(buffers[name][y_row]), lanes)
                for name in ("bias", "scale", "float_bias")
                if name in buffers
            }
            with loop(vectors) as v:
                at = T.bind(y_row * workload.n + tiling.column(task, v))
                operands = VectorOperands(
                    terms.get("scale"),
                    float_bias=terms.get("float_bias"),
                    residual=None if residual is None else load(residual, at, lanes),
                )
                total = load(sums, (r * vectors + v) * lanes, lanes) + terms["bias"]
                store(buffers["y"], at, epilogue.apply(total, operands), lanes)
