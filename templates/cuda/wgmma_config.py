"""Knobs of the warp-specialised wgmma pipeline and the sizes that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoq.templates.tiles.registers import RegisterBudget, register_budget
from autoq.templates.tiles.weights import KLayout

BARRIER_BYTES = 8
RESERVED_BYTES = 1024
"""Shared memory that the hardware keeps for itself in every block."""


@dataclass(frozen=True)
class PipelineConfig:
    """Knobs of a tile [block_m, block_n] computed by `consumers` warpgroups and fed by one warp.

    row_bytes: channels of a shared-memory sub-tile (its swizzle); per_stage: sub-tiles of a
    pipeline stage. cooperative: the consumers share a tile, else they take turns with a tile each
    (ping-pong). persistent: a block works on many tiles, else on one. group: m tiles that share
    their n tiles (rasterisation). channels_outer: the epilogue visits all rows of a channel group
    before the next group. residual_early: residuals are fetched before the main loop and wait in
    registers. Subclasses have m_blocks, the 64-row blocks of each consumer warpgroup.
    """

    if TYPE_CHECKING:
        m_blocks: int

    block_n: int
    row_bytes: int
    per_stage: int
    stages: int
    consumers: int
    cooperative: bool
    blocks_per_unit: int
    persistent: bool
    group: int
    channels_outer: bool
    residual_early: bool

    @property
    def team(self) -> int:
        """Warpgroups that share an output tile."""
        return self.consumers if self.cooperative else 1

    @property
    def block_m(self) -> int:
        """Rows of an output tile."""
        return 64 * self.m_blocks * self.team

    @property
    def threads(self) -> int:
        return 128 * (self.consumers + 1)

    @property
    def stage_bytes(self) -> int:
        """Shared memory of one pipeline stage: activations, then weights."""
        return (self.block_m + self.block_n) * self.row_bytes * self.per_stage

    @property
    def barriers(self) -> int:
        """Full and empty barriers, and one a consumer for the order of ping-pong."""
        return 2 * self.stages + (0 if self.cooperative else self.consumers)

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return self.stages * self.stage_bytes + self.barriers * BARRIER_BYTES

    @property
    def accumulators(self) -> int:
        """Accumulator registers of a consumer thread."""
        return self.m_blocks * self.block_n // 2

    @property
    def registers(self) -> RegisterBudget:
        return register_budget(self.consumers, self.blocks_per_unit)

    def layout(self, taps: int, c: int) -> KLayout:
        """How the reduction over `taps` filter taps of c channels is cut."""
        return KLayout(taps, c, self.row_bytes, self.per_stage)


@dataclass(frozen=True)
class WgmmaConfig(PipelineConfig):
    """Knobs of the pipeline over consecutive rows; m_blocks: 64-row blocks of a warpgroup."""

    m_blocks: int
