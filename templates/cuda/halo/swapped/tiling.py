"""Knobs of conv2d_swapped and its tiling of work and shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.cuda.halo.config import HaloConfig
from autoq.templates.cuda.halo.swapped.tile import SwappedTile
from autoq.templates.cuda.halo.tile import BLOCK_ROWS
from autoq.templates.cuda.halo.tiling import HaloTiling


@dataclass(frozen=True)
class SwappedConvConfig(HaloConfig):
    """Searched knobs of conv2d_swapped; block_n is a multiple of 64.

    store_stages: staging buffers of each consumer, so that a store may still be read.
    """

    store_stages: int


@dataclass(frozen=True)
class SwappedTiling(HaloTiling):
    """One configuration of one workload: output channels are rows of the product."""

    if TYPE_CHECKING:
        config: SwappedConvConfig

    tile_type = SwappedTile

    @cached_property
    def blocks(self) -> int:
        """wgmma blocks of 64 output channels of a tile."""
        return self.config.block_n // BLOCK_ROWS

    epilogue_slots = 5.5

    @property
    def other_registers(self) -> int:
        """Border biases take some."""
        return 64 if self.workload.zero_point_border else 40

    @cached_property
    def staged_bytes(self) -> int:
        return 2 * self.blocks * self.store_bytes

    @cached_property
    def instruction_n(self) -> int:
        return self.tile.columns

    @cached_property
    def atom(self) -> Wgmma:
        return Wgmma.dense(self.instruction_n, "int8", self.workload.in_dtype, "int32")

    @cached_property
    def store_bytes(self) -> int:
        """One staging buffer: 64 channels of every column, whole swizzle patterns."""
        return -(-self.tile.staged_rows * BLOCK_ROWS // 1024) * 1024

    @cached_property
    def store_offset(self) -> int:
        """Shared-memory byte where the staging buffers start."""
        return -(-self.weights_end // 1024) * 1024

    @cached_property
    def barrier_offset(self) -> int:
        buffers = self.config.consumers * self.config.store_stages
        return self.store_offset + buffers * self.store_bytes
