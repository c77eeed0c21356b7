"""Products of floats with weights of 16-bit floats or narrow integers on any CPU, in float32."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.element import numpy_dtype
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.floats import widened
from autoq.templates.cpu.mixed.config import (
    TILE_ROWS,
    MixedCpuConfig,
    block_rows,
    depths,
    is_plain,
    mixed_space,
    registers,
)
from autoq.templates.cpu.mixed.kernel import build_products
from autoq.templates.cpu.mixed.tiles import AddProducts, MixedTiling, Turn, multiply
from autoq.templates.cpu.vector import cast, held, load, loop, store, vector_lanes
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_CHAINS = 8
"""Sums that a core adds to at the same time: two vectors a cycle, of four cycles each."""
_WIDENING = 3
"""Multiply-adds that take as long as to widen a weight."""


def matches(workload: object, target: Target) -> bool:
    """Every plain product of floats and floats or integers; float16 came with AVX2."""
    return is_plain(workload, target)


def default(workload: FloatGemm, target: Target) -> MixedCpuConfig:
    """The tile that computes the fewest rows and columns too many, of those without waits."""
    lanes = vector_lanes(target)
    widest = -(-workload.n // lanes)

    def cost(tile: tuple[int, int]) -> float:
        rows, vectors = tile
        blocks = -(-workload.m // block_rows(workload, rows))
        computed = blocks * -(-block_rows(workload, rows) // rows) * rows
        waits = max(1.0, _CHAINS / (rows * vectors))
        columns = -(-widest // vectors) * vectors
        return columns * (computed * waits * (1 + 1 / (rows * vectors)) + blocks * _WIDENING)

    tiles = [
        (rows, vectors)
        for rows in TILE_ROWS
        for vectors in (4, 3, 2, 1)
        if rows <= workload.m and vectors <= widest
        and rows * vectors + vectors + 1 <= registers(target)
    ]  # fmt: skip
    tile_rows, vectors = min(tiles, key=cost)
    deep = [depth for depth in depths(workload) if depth <= 128 or depth == workload.k]
    rows = block_rows(workload, tile_rows)
    return MixedCpuConfig(lanes, tile_rows, vectors, rows, max(deep))


def space(workload: FloatGemm, target: Target) -> Space[MixedCpuConfig]:
    """Tiles that fit the registers, over blocks of several sizes."""
    return mixed_space(workload, target, default(workload, target), depths(workload))


def _weight_dtype(workload: FloatGemm) -> str:
    """How weights are packed: less their zero points, a value a byte at least."""
    if not workload.quantised:
        return workload.weight_dtype
    if workload.zero_points:
        return "int16"
    return {"int4": "int8", "uint4": "uint8"}.get(workload.weight_dtype, workload.weight_dtype)


def _tiling(workload: FloatGemm, config: MixedCpuConfig) -> MixedTiling:
    return MixedTiling(
        workload, config.lanes, config.tile_rows, config.vectors, config.block_rows, config.depth
    )


def build(workload: FloatGemm, config: MixedCpuConfig, target: Target) -> PrimFunc:
    """The kernel; parameters x, weight, scale of integers, bias, y. Tasks share rows or columns."""
    tiling = _tiling(workload, config)

    def products(buffers: Mapping[str, Buffer], x: Buffer) -> AddProducts:
        weights = T.alloc_buffer((tiling.depth * tiling.columns,), "float32")

        def add(turn: Turn, sums: Buffer) -> None:
            _widen_weights(tiling, buffers, turn, weights)
            multiply(tiling, turn, x, weights, sums)

        return add

    return build_products(tiling, packed(workload, config), target, products)


def _widen_weights(
    tiling: MixedTiling, buffers: Mapping[str, Buffer], turn: Turn, wide: Buffer
) -> None:
    """A turn's rows of a weight tile in float32, times their group's scale."""
    workload, columns, lanes = tiling.workload, tiling.columns, tiling.lanes
    base = T.bind((turn.tile * workload.k + turn.start) * columns)
    for vector in range(tiling.vectors):
        scale = None
        if workload.group:
            at = (turn.tile * workload.groups + turn.start // workload.group) * columns
            scale = held(load(buffers["scale"], at + vector * lanes, lanes), lanes)
        with loop(turn.depth) as row:
            at = row * columns + vector * lanes
            value = load(buffers["weight"], base + at, lanes)
            if workload.quantised:
                value = cast(value, "float32", lanes)
            else:
                value = widened(value, workload.weight_dtype, lanes)
            store(wide, at, value if scale is None else value * scale, lanes)


def pack(
    workload: FloatGemm, config: MixedCpuConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """Weight less its zero points [tiles, k, columns], scale [tiles, groups, columns], bias.

    What lies beyond the last column is 0.
    """
    tiling = _tiling(workload, config)
    weight = np.asarray(constants["weight"])
    if workload.zero_points:
        length = workload.group or workload.k
        zeros = np.repeat(np.asarray(constants["zero_point"]).astype(np.int16), length, axis=1)
        weight = weight.astype(np.int16) - zeros
    arrays = [weight]
    if workload.quantised:
        arrays.append(np.asarray(constants["scale"], np.float32))
    bias = constants["bias"] if workload.bias else np.zeros(workload.n)
    arrays.append(np.asarray(bias, np.float32).reshape(-1, 1))
    specs = packed(workload, config)
    return tuple(
        tiling.by_columns(array).reshape(spec.shape).astype(numpy_dtype(spec.dtype))
        for array, spec in zip(arrays, specs, strict=True)
    )


def packed(workload: FloatGemm, config: MixedCpuConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    tiling = _tiling(workload, config)
    tiles, columns = tiling.column_tiles, tiling.columns
    specs = [TensorSpec("weight", (tiles, workload.k, columns), _weight_dtype(workload))]
    if workload.quantised:
        specs.append(TensorSpec("scale", (tiles, workload.groups, columns), "float32"))
    return (*specs, TensorSpec("bias", (tiles, columns), "float32"))


TEMPLATE = Template("float_gemm_cpu", 2, matches, space, default, build, pack, packed)
"""Products of floats, widened to float32."""
