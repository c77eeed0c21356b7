"""Knobs of tile-wise products on a CPU: the register tile, and the rows of a task."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.search.space import Space
from autoq.templates.cpu.dot import Dot
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target

_ROWS = (1, 2, 3, 4, 6, 8)
_VECTORS = (1, 2, 3, 4, 6, 8)
_BLOCKS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class TileWiseCpuConfig:
    """Configuration of a tile-wise product on a CPU.

    rows: rows of a register tile.
    vectors: vectors of columns of a register tile.
    blocks: register tiles that a task has below each other.
    """

    rows: int
    vectors: int
    blocks: int


def registers(target: Target) -> int:
    """Vector registers."""
    return 32 if target.avx512 else 16


def tile_wise_space(workload: Gemm, dot: Dot, target: Target) -> Space[TileWiseCpuConfig]:
    """Register tiles that fit, no wider than the tiles of the weight."""
    assert workload.sparsity is not None
    widest = -(-min(workload.sparsity.granularity, workload.n) // dot.lanes)

    def fits_registers(config: TileWiseCpuConfig) -> bool:
        """sums, a vector of weights each and what products take fit the registers"""
        taken = config.rows * config.vectors + config.vectors + (1 if dot.fused else 3)
        return taken <= registers(target)

    def rows_are_there(config: TileWiseCpuConfig) -> bool:
        """a task has no more rows than x, unless it has one register tile"""
        return config.blocks == 1 or config.rows * config.blocks <= workload.m

    knobs = {
        "rows": tuple(rows for rows in _ROWS if rows <= workload.m),
        "vectors": tuple(count for count in _VECTORS if count == 1 or count <= widest),
        "blocks": _BLOCKS,
    }
    return Space(TileWiseCpuConfig, knobs, (fits_registers, rows_are_there))


def tile_wise_default(workload: Gemm, dot: Dot, target: Target) -> TileWiseCpuConfig:
    """The largest register tile, and rows for each core."""
    legal = tile_wise_space(workload, dot, target).enumerate()
    share = -(-workload.m // target.units)

    def cost(config: TileWiseCpuConfig) -> tuple[float, int]:
        loads = 1 / config.rows + 1 / config.vectors
        idle = max(0, config.rows * config.blocks - share) / share
        return loads + idle + 1 / (config.rows * config.blocks), config.blocks

    return min(legal, key=cost)
