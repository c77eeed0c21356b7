"""Knobs of products in register tiles of float32, and which of their values go together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autoq.search.space import Space
from autoq.templates.cpu.vector import vector_lanes
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target

TILE_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 12)
_VECTORS = (1, 2, 3, 4, 5, 6, 8)
_BLOCK_ROWS = (16, 32, 64, 128)
_BLOCK_BYTES = 512 << 10
"""Bytes of a block's x in float32 by default: half of a core's second cache."""


@dataclass(frozen=True)
class MixedCpuConfig:
    """One register tile, and how much is converted at a time.

    lanes: columns of a vector.
    tile_rows: rows of a register tile.
    vectors: vectors of columns of a register tile.
    block_rows: rows of x that a task holds in float32.
    depth: values of k that are multiplied in one go.
    """

    lanes: int
    tile_rows: int
    vectors: int
    block_rows: int
    depth: int


def is_plain(workload: object, target: Target) -> bool:
    """Whether it is one product on a CPU, of floats that its vectors hold."""
    if target.kind != "cpu" or not (isinstance(workload, FloatGemm) and workload.alone):
        return False
    dtypes = (workload.in_dtype, workload.weight_dtype, workload.out_dtype)
    return "float8_e4m3fn" not in dtypes and (target.avx2 or "float16" not in dtypes)


def depths(workload: FloatGemm) -> tuple[int, ...]:
    """Depths of which a group has a whole number; without groups a last one may be shorter."""
    known = (32, 64, 128, 256)
    if not workload.group:
        return tuple(sorted({min(depth, workload.k) for depth in known}))
    return tuple(sorted({math.gcd(depth, workload.group) for depth in known}))


def block_rows(workload: FloatGemm, tile_rows: int) -> int:
    """Rows of blocks of one size, in whole register tiles, that stay in the cache."""
    fitting = max(1, _BLOCK_BYTES // (4 * workload.k * tile_rows))
    tiles = -(-workload.m // tile_rows)
    blocks = -(-tiles // fitting)
    return min(workload.m, -(-tiles // blocks) * tile_rows)


def registers(target: Target) -> int:
    """Vector registers of a core."""
    return 32 if target.avx512 else 16


def mixed_space(
    workload: FloatGemm, target: Target, chosen: MixedCpuConfig, depths: Sequence[int]
) -> Space[MixedCpuConfig]:
    """Tiles that fit the registers, over blocks of several sizes; chosen: the default."""

    def fits_registers(config: MixedCpuConfig) -> bool:
        """accumulators, a vector of each column and one of x must fit the vector registers"""
        used = config.tile_rows * config.vectors + config.vectors + 1
        return used <= registers(target)

    def tile_within_block(config: MixedCpuConfig) -> bool:
        """a register tile is not taller than a block"""
        return config.tile_rows <= config.block_rows

    most = -(-workload.n // chosen.lanes)
    blocks = {min(rows, workload.m) for rows in _BLOCK_ROWS} | {chosen.block_rows}
    return Space(
        MixedCpuConfig,
        {
            "lanes": (vector_lanes(target),),
            "tile_rows": tuple(rows for rows in TILE_ROWS if rows <= workload.m),
            "vectors": tuple(sorted({min(count, most) for count in _VECTORS})),
            "block_rows": tuple(sorted(blocks)),
            "depth": tuple(depths),
        },
        (fits_registers, tile_within_block),
    )
