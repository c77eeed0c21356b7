"""Products of 16-bit floats with weights of floats or narrow integers on any CPU, in float32."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cpu.mixed.tiles import MixedTiling, emit_block
from autoq.templates.cpu.vector import flat, tasks_loop, vector_lanes
from autoq.templates.element import numpy_dtype
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

_TILE_ROWS = (1, 2, 3, 4, 6, 8, 12)
_BLOCK_ROWS = (16, 32, 64, 128)
_BLOCK_BYTES = 512 << 10
"""Of a block's x in float32 by default: half of a core's second cache."""


@dataclass(frozen=True)
class MixedCpuConfig:
    """One register tile, and how much is converted at a time.

    lanes: columns of a vector.
    tile_rows: rows of a register tile.
    vectors: vectors of columns of a register tile.
    block_rows: rows of x that a task holds in float32.
    depth: rows of a weight tile that are widened at a time.
    """

    lanes: int
    tile_rows: int
    vectors: int
    block_rows: int
    depth: int


def matches(workload: object, target: Target) -> bool:
    """Every plain product of floats and floats or integers; float16 came with AVX2."""
    if target.kind != "cpu" or not (isinstance(workload, FloatGemm) and workload.plain):
        return False
    halves = "float16" in (workload.in_dtype, workload.weight_dtype, workload.out_dtype)
    return target.avx2 or not halves


def _registers(target: Target) -> int:
    return 32 if target.avx512 else 16


def _depths(workload: FloatGemm) -> tuple[int, ...]:
    """Depths of which a group has a whole number; without groups a last one may be shorter."""
    known = (32, 64, 128, 256)
    if not workload.group:
        return tuple(sorted({min(depth, workload.k) for depth in known}))
    whole = {math.gcd(depth, workload.group) for depth in known}
    return tuple(sorted(whole))


def default(workload: FloatGemm, target: Target) -> MixedCpuConfig:
    """A tile that fills the registers, and x by blocks that stay in the cache."""
    lanes = vector_lanes(target)
    vectors = min(4 if target.avx512 else 2, -(-workload.n // lanes))
    most = (_registers(target) - 2 - vectors) // vectors
    tile_rows = max(rows for rows in _TILE_ROWS if rows <= min(most, workload.m))
    fitting = max(tile_rows, _BLOCK_BYTES // (4 * workload.k))
    blocks = [min(rows, workload.m) for rows in _BLOCK_ROWS if rows <= fitting]
    block_rows = max([tile_rows, *blocks])
    depth = max(depth for depth in _depths(workload) if depth <= 128 or depth == workload.k)
    return MixedCpuConfig(lanes, tile_rows, vectors, block_rows, depth)


def space(workload: FloatGemm, target: Target) -> Space[MixedCpuConfig]:
    """Tiles that fit the registers, over blocks of several sizes."""
    chosen = default(workload, target)

    def fits_registers(config: MixedCpuConfig) -> bool:
        """accumulators, a vector of each column and one of x must fit the vector registers"""
        used = config.tile_rows * config.vectors + config.vectors + 1
        return used <= _registers(target)

    def tile_within_block(config: MixedCpuConfig) -> bool:
        """a register tile is not taller than a block"""
        return config.tile_rows <= config.block_rows

    most = -(-workload.n // chosen.lanes)
    blocks = {min(rows, workload.m) for rows in _BLOCK_ROWS} | {chosen.block_rows}
    return Space(
        MixedCpuConfig,
        {
            "lanes": (chosen.lanes,),
            "tile_rows": tuple(rows for rows in _TILE_ROWS if rows <= workload.m),
            "vectors": tuple(count for count in (1, 2, 3, 4, 6, 8) if count <= most),
            "block_rows": tuple(sorted(blocks)),
            "depth": _depths(workload),
        },
        (fits_registers, tile_within_block),
    )


def _tiling(workload: FloatGemm, config: MixedCpuConfig) -> MixedTiling:
    return MixedTiling(
        workload, config.lanes, config.tile_rows, config.vectors, config.block_rows, config.depth
    )


def build(workload: FloatGemm, config: MixedCpuConfig, target: Target) -> PrimFunc:
    """The kernel; parameters x, weight, scale of integers, bias, y. Tasks share rows or columns."""
    tiling = _tiling(workload, config)
    specs = (*workload.inputs, *packed(workload, config), *workload.outputs)
    shares = min(tiling.column_tiles, -(-2 * target.units // tiling.blocks))
    with IRBuilder() as builder, T.prim_func():
        T.func_name("main")
        T.func_attr({"tirx.noalias": True})
        parameters = {s.name: T.arg(s.name, T.buffer(s.shape, s.dtype)) for s in specs}
        with tasks_loop(tiling.blocks * shares) as task:
            buffers = {name: flat(buffer) for name, buffer in parameters.items()}
            first = T.bind(
                T.min(task // shares * config.block_rows, workload.m - config.block_rows)
            )
            emit_block(tiling, buffers, first, T.bind(task % shares), shares)
    return builder.get()


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
        _by_columns(tiling, array).reshape(spec.shape).astype(numpy_dtype(spec.dtype))
        for array, spec in zip(arrays, specs, strict=True)
    )


def _by_columns(tiling: MixedTiling, rows: np.ndarray) -> np.ndarray:
    """Rows of n as the columns of tiles, zeros behind the last one: [tiles, length, columns]."""
    whole = np.zeros((tiling.column_tiles * tiling.columns, rows.shape[1]), rows.dtype)
    whole[: len(rows)] = rows
    tiles = whole.reshape(tiling.column_tiles, tiling.columns, -1)
    return np.ascontiguousarray(tiles.transpose(0, 2, 1))


def packed(workload: FloatGemm, config: MixedCpuConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    tiling = _tiling(workload, config)
    tiles, columns = tiling.column_tiles, tiling.columns
    specs = [TensorSpec("weight", (tiles, workload.k, columns), tiling.weight_dtype)]
    if workload.quantised:
        specs.append(TensorSpec("scale", (tiles, workload.groups, columns), "float32"))
    return (*specs, TensorSpec("bias", (tiles, columns), "float32"))


TEMPLATE = Template("float_gemm_cpu", 1, matches, space, default, build, pack, packed)
"""Products of 16-bit floats, widened to float32."""
