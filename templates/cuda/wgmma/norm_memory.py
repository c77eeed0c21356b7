"""Shared memory that a block of a cluster normalises its rows with, behind all else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autoq.templates.cuda.device.memory.ring import BARRIER_BYTES
from autoq.templates.cuda.wgmma.config import PipelineConfig
from autoq.templates.epilogue.cuda.fragments.norm_rows import NORM_WORDS, ROW_PAIR_BYTES


@dataclass(frozen=True)
class NormMemory:
    """A tile's constants, then the sums of rows that come from all blocks, then their barriers.

    A warp has 16 rows of each 64 of its consumer, and a barrier of its own; with the warps of other
    consumers that have other columns of its rows, where these divide a reduction.
    """

    begin: int
    config: PipelineConfig

    @property
    def constant_bytes(self) -> int:
        """Factors and offsets of a tile's columns, and the numbers of all rows."""
        return 4 * (2 * self.config.block_n + NORM_WORDS)

    @property
    def warps(self) -> int:
        """Of those with rows of their own."""
        return 4 * self.config.row_team

    @property
    def warp_bytes(self) -> int:
        """What comes for the rows of a warp."""
        sources = self.config.grid.cluster * self.config.parts
        return self.config.m_blocks * sources * 8 * ROW_PAIR_BYTES

    def sums_at(self, warp: Any) -> Any:
        """Byte offset of what comes for the rows of a warp."""
        return self.begin + self.constant_bytes + warp * self.warp_bytes

    def barrier_at(self, warp: Any) -> Any:
        """Byte offset of the barrier that completes when it has come."""
        return self.sums_at(self.warps) + warp * BARRIER_BYTES

    @property
    def end(self) -> int:
        """Behind all of it."""
        return self.barrier_at(self.warps)  # type: ignore[no-any-return]

    def factor_at(self, group: Any, lane: Any) -> Any:
        """Byte offset of a thread's factors of a channel group, in the order of scales."""
        return self.begin + group * (16 * self.config.channels) + lane % 4 * 16

    @property
    def numbers_at(self) -> int:
        """Byte offset of the numbers of all rows."""
        return self.begin + 8 * self.config.block_n


def norm_bytes(config: PipelineConfig) -> Any:
    """All of it, and what it begins behind padding by at most."""
    return 16 + NormMemory(0, config).end
