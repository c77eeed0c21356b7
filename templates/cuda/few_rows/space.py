"""Configurations of products of few rows that are legal, and the default."""

from __future__ import annotations

from autoq.search.space import Space
from autoq.templates.cuda.few_rows.config import FewRowsConfig, FewRowsTiling
from autoq.templates.cuda.few_rows.cost import estimated_seconds, features
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target

_KNOBS = {
    "tiles": (1, 2, 4),
    "warps": (1, 2, 4, 8, 16, 32),
    "splits": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32),
    "depth": (1, 2, 3, 4, 6, 8),
}  # fmt: skip


def few_rows_space(workload: Gemm, target: Target) -> Space[FewRowsConfig]:
    """Blocks that a multiprocessor has room for, and none without work."""

    def tiling_of(config: FewRowsConfig) -> FewRowsTiling:
        return FewRowsTiling(workload, config)

    def a_block_fits(config: FewRowsConfig) -> bool:
        """a multiprocessor has shared memory and registers for a block, a thread for its pieces"""
        tiling = tiling_of(config)
        fits = tiling.smem_bytes <= target.smem_bytes and tiling.resident(target) > 0
        return fits and tiling.registers <= target.thread_registers

    def blocks_have_work(config: FewRowsConfig) -> bool:
        """all blocks of a group have pieces of k"""
        tiling = tiling_of(config)
        return tiling.split_pieces * (config.splits - 1) < tiling.pieces

    def warps_have_work(config: FewRowsConfig) -> bool:
        """all warps of a block have pieces, unless it has one warp"""
        return config.warps == 1 or config.warps <= tiling_of(config).split_pieces

    def outputs_are_there(config: FewRowsConfig) -> bool:
        """no block has twice the outputs of y, unless it has one tile of them"""
        return config.tiles == 1 or tiling_of(config).outputs < 2 * workload.n

    rules = (a_block_fits, blocks_have_work, warps_have_work, outputs_are_there)
    return Space(FewRowsConfig, _KNOBS, rules, lambda c: features(tiling_of(c), target))


_UNTUNED_WARPS = 16
"""Blocks of more are left to searches."""


def few_rows_default(workload: Gemm, target: Target) -> FewRowsConfig:
    """The legal configuration of least estimated time, of equal ones that with fewer splits."""
    legal = few_rows_space(workload, target).enumerate()
    return min(
        (config for config in legal if config.warps <= _UNTUNED_WARPS),
        key=lambda c: (estimated_seconds(FewRowsTiling(workload, c), target), c.splits, c.warps),
    )
