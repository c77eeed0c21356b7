"""Batched products of two float32 activations on a CPU: register tiles of fused multiply-adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cpu.batched.float_tiles import FloatTiling, emit_block
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.vector import vector_lanes
from autoq.templates.epilogue.scale_and_scalars import pack, packed
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

_TILE_ROWS = (1, 2, 3, 4, 5, 6, 8, 12)
_VECTORS = (1, 2, 3, 4, 6)


@dataclass(frozen=True)
class BatchedFloatsConfig:
    """One register tile, and how rows are shared out.

    block_rows: rows of y that a task computes.
    tile_rows: rows of a register tile.
    vectors: vectors of columns of a register tile.
    """

    block_rows: int
    tile_rows: int
    vectors: int


def matches(workload: object, target: Target) -> bool:
    """Batches of products of float32 that end in float32."""
    return (
        isinstance(workload, BatchedGemm)
        and target.kind == "cpu"
        and workload.in_dtype == workload.epilogue.out_dtype == "float32"
    )


def _registers(target: Target) -> int:
    """Vector registers of a core."""
    return 32 if target.avx512 else 16


def lanes_of(workload: BatchedGemm, target: Target) -> int:
    """Columns of a vector: those of a register, or the largest power of two within a row of y."""
    return min(vector_lanes(target), 1 << (workload.n.bit_length() - 1))


def default(workload: BatchedGemm, target: Target) -> BatchedFloatsConfig:
    """Tiles as large as registers hold, and a task a pair of matrices where there are enough."""
    most = -(-workload.n // lanes_of(workload, target))
    registers = _registers(target)
    vectors = max(count for count in _VECTORS[:4] if count <= max(1, min(most, registers // 8)))
    rows = (registers - 1 - vectors) // vectors
    tile_rows = max(count for count in _TILE_ROWS if count <= min(rows, workload.m))
    parts = -(-target.units // workload.products)
    block_rows = max(tile_rows, -(-workload.m // min(parts, workload.m)))
    return BatchedFloatsConfig(block_rows, tile_rows, vectors)


def space(workload: BatchedGemm, target: Target) -> Space[BatchedFloatsConfig]:
    """Every tile that fits the registers."""

    def fits_registers(config: BatchedFloatsConfig) -> bool:
        """sums, one vector of columns each and a broadcast value fit the registers"""
        needed = config.tile_rows * config.vectors + config.vectors + 1
        return needed <= _registers(target)

    def tile_within_block(config: BatchedFloatsConfig) -> bool:
        """a register tile is not taller than a task's rows"""
        return config.tile_rows <= config.block_rows

    most = -(-workload.n // lanes_of(workload, target))
    halvings = {-(-workload.m // (1 << i)) for i in range(6)}
    return Space(
        BatchedFloatsConfig,
        {
            "block_rows": tuple(sorted(halvings | {default(workload, target).block_rows})),
            "tile_rows": tuple(rows for rows in _TILE_ROWS if rows <= workload.m),
            "vectors": tuple(count for count in _VECTORS if count <= most),
        },
        (fits_registers, tile_within_block),
    )


def build(workload: BatchedGemm, config: BatchedFloatsConfig, target: Target) -> PrimFunc:
    """The kernel; parameters x, other, scale [1], scalars, y."""
    specs = (*workload.inputs, *packed(workload, config), *workload.outputs)
    lanes = lanes_of(workload, target)
    tiling = FloatTiling(workload, config.block_rows, config.tile_rows, config.vectors, lanes)

    def emit(buffers: Mapping[str, Buffer], task: Expr) -> None:
        pair = T.bind(task // tiling.blocks)
        first = task % tiling.blocks * config.block_rows
        emit_block(tiling, buffers, pair, T.bind(T.min(first, workload.m - config.block_rows)))

    return task_kernel(specs, workload.products * tiling.blocks, emit)


TEMPLATE = Template("batched_gemm_floats_cpu", 1, matches, space, default, build, pack, packed)
"""Products of two float32 activations in batches."""
