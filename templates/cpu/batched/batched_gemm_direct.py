"""Batched products of two activations on any CPU: a row of sums at a time, bytes widened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.frame import bind_scalars, task_kernel
from autoq.templates.cpu.vector import cast, for_chunks, load, loop, splat, store
from autoq.templates.epilogue import SCALAR_NAMES
from autoq.templates.epilogue.cpu import VectorEpilogue, VectorOperands
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_LANES = 16


@dataclass(frozen=True)
class BatchedDirectConfig:
    """Configuration of the direct kernel.

    rows: rows of y that a task computes.
    """

    rows: int


def matches(workload: object, target: Target) -> bool:
    """Every batch of products of bytes, but for a table of outputs or outputs of 4 bits."""
    return (
        isinstance(workload, BatchedGemm)
        and target.kind == "cpu"
        and not workload.floating
        and not workload.epilogue.table
        and not workload.has_four_bits
    )


def default(workload: BatchedGemm, target: Target) -> BatchedDirectConfig:
    """A task a pair of matrices, or less where the pairs are fewer than the cores."""
    parts = min(workload.m, -(-target.units // workload.products))
    return BatchedDirectConfig(-(-workload.m // parts))


def space(workload: BatchedGemm, target: Target) -> Space[BatchedDirectConfig]:
    """All rows of a pair, halves of them and so on, and the default."""
    parts = (1 << i for i in range(workload.m.bit_length()))
    rows = {-(-workload.m // part) for part in parts} | {default(workload, target).rows}
    return Space(BatchedDirectConfig, {"rows": tuple(sorted(rows))})


def build(workload: BatchedGemm, config: BatchedDirectConfig, target: Target) -> PrimFunc:
    """The kernel; parameters x, other, residual?, zero_points int32 [2], scale?, scalars, y."""
    specs = (*workload.inputs, *packed(workload, config), *workload.outputs)
    blocks = -(-workload.m // config.rows)

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        pair = T.bind(task // blocks)
        first = T.bind(T.min(task % blocks * config.rows, workload.m - config.rows))
        with loop(config.rows) as row:
            _emit_row(workload, buffers, pair, T.bind(first + row))

    return task_kernel(specs, workload.products * blocks, emit)


def _emit_row(workload: BatchedGemm, buffers: dict[str, Buffer], pair: Expr, row: Expr) -> None:
    """Row `row` of a pair's y."""

    def places(order: str) -> tuple[Expr, int]:
        return workload.row_places(order, pair)

    sums = T.alloc_buffer((workload.n,), "int32")
    x_start, y_start = (
        T.bind(start + row * step)
        for start, step in map(places, (workload.x_order, workload.y_order))
    )
    zero_points = buffers["zero_points"]
    x_zero, other_zero = T.bind(zero_points[0]), T.bind(zero_points[1])
    x, other = buffers["x"], buffers["other"]
    other_start, other_step = places(workload.other_order)

    def centred(index: Expr) -> Expr:
        return cast(x[x_start + index], "int32", 1) - x_zero

    if workload.other_order.endswith("k"):
        with loop(workload.n) as column:
            start = T.bind(other_start + column * other_step)
            total = T.alloc_buffer((1,), "int32")
            store(total, 0, T.int32(0), 1)
            with loop(workload.k) as index:
                value = cast(other[start + index], "int32", 1) - other_zero
                store(total, 0, total[0] + centred(index) * value, 1)
            store(sums, column, total[0], 1)
    else:
        with loop(workload.n) as column:
            store(sums, column, T.int32(0), 1)
        with loop(workload.k) as index:
            factor = T.bind(centred(index))
            start = T.bind(other_start + index * other_step)
            with loop(workload.n) as column:
                value = cast(other[start + column], "int32", 1) - other_zero
                store(sums, column, sums[column] + factor * value, 1)
    _emit_epilogue(workload, buffers, sums, y_start)


def _emit_epilogue(
    workload: BatchedGemm, buffers: dict[str, Buffer], sums: Buffer, y_start: Expr
) -> None:
    """From a row's sums to its outputs."""
    scalars = bind_scalars(buffers["scalars"], SCALAR_NAMES)
    scale = T.bind(buffers["scale"][0]) if "scale" in buffers else None
    residual = buffers.get("residual")

    def chunk(at: Expr | int, lanes: int) -> None:
        epilogue = VectorEpilogue(workload.epilogue, workload.in_dtype, lanes, scalars)
        scales = None if scale is None else splat(scale, lanes)
        addend = None if residual is None else load(residual, y_start + at, lanes)
        value = epilogue.apply(load(sums, at, lanes), VectorOperands(scales, residual=addend))
        store(buffers["y"], y_start + at, value, lanes)

    for_chunks(workload.n, _LANES, chunk)


def pack(
    workload: BatchedGemm, config: BatchedDirectConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The zero points, the scale unless sums are written, the scalars."""
    zero_points = [int(constants.get(f"{name}_zero_point", 0)) for name in ("x", "other")]
    arrays = [np.array(zero_points, np.int32)]
    if workload.epilogue.out_dtype != "int32":
        arrays.append(np.asarray(constants["scale"], np.float32).reshape(1))
    return (*arrays, np.ascontiguousarray(constants["scalars"], np.float32))


def packed(workload: BatchedGemm, config: BatchedDirectConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    scale = (TensorSpec("scale", (1,), "float32"),)
    return (
        TensorSpec("zero_points", (2,), "int32"),
        *(scale if workload.epilogue.out_dtype != "int32" else ()),
        TensorSpec("scalars", (len(SCALAR_NAMES),), "float32"),
    )


TEMPLATE = Template("batched_gemm_direct_cpu", 1, matches, space, default, build, pack, packed)
"""Products of two activations in batches, plain and exact."""
