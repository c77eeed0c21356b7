"""Batched products of two activations by AVX512-VNNI's `vpdpbusd`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.batched import batched_gemm_direct
from autoq.templates.cpu.batched.vnni_tiles import BatchedTiling, emit_block
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_REGISTERS = 32
_TILE_ROWS = (1, 2, 3, 4, 6, 8, 12)
_BLOCK_BYTES = 256 << 10
"""Bytes of x that a task copies by default; half of it fits a core's second cache with what it
meets."""


@dataclass(frozen=True)
class BatchedVnniConfig:
    """One register tile, and how rows are shared out.

    block_rows: rows of y that a task computes.
    tile_rows: rows of a register tile.
    vectors: vectors of 16 columns of a register tile.
    """

    block_rows: int
    tile_rows: int
    vectors: int


def matches(workload: object, target: Target) -> bool:
    """Batches of products of bytes at least 16 columns wide, on a CPU with AVX512-VNNI."""
    has_vnni = target.vnni and target.avx512
    return has_vnni and batched_gemm_direct.matches(workload, target) and workload.n >= 16


def default(workload: BatchedGemm, target: Target) -> BatchedVnniConfig:
    """Tiles as large as registers hold, and a task a pair of matrices where there are enough."""
    vectors = min(4, -(-workload.n // 16))
    most = (_REGISTERS - 1 - vectors) // vectors
    tile_rows = max(rows for rows in _TILE_ROWS if rows <= min(most, workload.m))
    parts = -(-target.units // workload.products)
    parts = max(parts, -(-workload.m * workload.k // _BLOCK_BYTES))
    block_rows = max(tile_rows, -(-workload.m // min(parts, workload.m)))
    return BatchedVnniConfig(block_rows, tile_rows, vectors)


def space(workload: BatchedGemm, target: Target) -> Space[BatchedVnniConfig]:
    """Every tile that fits the registers."""

    def fits_registers(config: BatchedVnniConfig) -> bool:
        """accumulators, one vector of columns each and a broadcast word fit 32 registers"""
        return config.tile_rows * config.vectors + config.vectors + 1 <= _REGISTERS

    def tile_within_block(config: BatchedVnniConfig) -> bool:
        """a register tile is not taller than a task's rows"""
        return config.tile_rows <= config.block_rows

    most = -(-workload.n // 16)
    halvings = {-(-workload.m // (1 << i)) for i in range(6)}
    return Space(
        BatchedVnniConfig,
        {
            "block_rows": tuple(sorted(halvings | {default(workload, target).block_rows})),
            "tile_rows": tuple(rows for rows in _TILE_ROWS if rows <= workload.m),
            "vectors": tuple(count for count in (1, 2, 3, 4, 6, 8) if count <= most),
        },
        (fits_registers, tile_within_block),
    )


def build(workload: BatchedGemm, config: BatchedVnniConfig, target: Target) -> PrimFunc:
    """The kernel; parameters x, other, residual?, zero_points int32 [2], scale?, scalars, y."""
    specs = (*workload.inputs, *packed(workload, config), *workload.outputs)
    tiling = BatchedTiling(workload, config.block_rows, config.tile_rows, config.vectors)

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        pair = T.bind(task // tiling.blocks)
        first = task % tiling.blocks * config.block_rows
        emit_block(tiling, buffers, pair, T.bind(T.min(first, workload.m - config.block_rows)))

    return task_kernel(specs, workload.products * tiling.blocks, emit)


def pack(
    workload: BatchedGemm, config: BatchedVnniConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The zero points of both activations as they are multiplied, the scale, the scalars."""
    zero_points, *rest = batched_gemm_direct.pack(workload, config, constants)
    shifts = (128 * (workload.in_dtype == "int8"), -128 * (workload.other_dtype == "uint8"))
    return (zero_points + np.array(shifts, np.int32), *rest)


def packed(workload: BatchedGemm, config: BatchedVnniConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return batched_gemm_direct.packed(workload, config)


TEMPLATE = Template(
    "batched_gemm_vnni", 1, matches, space, default, build, pack, packed, preference=20
)
"""Products of two activations in batches, bytes by fours."""
