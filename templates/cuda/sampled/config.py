"""Knobs of the sampled product, and what follows from them: chunks of rows, items, registers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import is_four_bit, stored
from autoq.templates.cuda.device.launch.occupancy import allocated, blocks_held
from autoq.templates.operators.sddmm import Sddmm
from autoq.templates.target import Target

TILE = 16
"""Vectors of a product of a tensor core: the rows of its left factor."""

_OTHER_REGISTERS = 32


@dataclass(frozen=True)
class SampledConfig:
    """Configuration of the sampled product.

    tiles: tiles of 16 vectors of one vector row that a warp computes together.
    warps: warps of a block.
    chunks: chunks of the gathered rows that are read at once, 64 bytes each (32 of short rows).
    ahead: whether rows of a are read a round of chunks ahead, as the paper's figure 13 asks.
    """

    tiles: int
    warps: int
    chunks: int
    ahead: bool


@dataclass(frozen=True)
class SampledTiling:
    """A sampled product cut by a configuration."""

    workload: Sddmm
    config: SampledConfig

    @property
    def row_bytes(self) -> int:
        """A row of a or of b."""
        shape, dtype = stored((self.workload.k,), self.workload.a_dtype)
        return shape[0] * element(dtype).bytes

    @property
    def digits(self) -> int:
        """Bytes of an integer of 16 bits: products take one at a time, the highest with a sign."""
        return 2 if self.workload.a_dtype in ("int16", "uint16") else 1

    @property
    def planes(self) -> int:
        """Sums of an output: one for each place that products of digits have."""
        return 2 * self.digits - 1

    @property
    def lane_bytes(self) -> int:
        """What a lane reads of a row at once: four lanes share a chunk."""
        return 16 if self.row_bytes > 32 or self.digits == 2 else 8

    @property
    def aligned_bytes(self) -> int:
        """What a lane reads by one instruction."""
        return math.gcd(self.row_bytes, self.lane_bytes)

    @property
    def chunks(self) -> int:
        """Chunks of a row."""
        return -(-self.row_bytes // (4 * self.lane_bytes))

    @property
    def items(self) -> int:
        """Most pieces of work of a warp: vectors of one row, or places that stay empty."""
        vectors = TILE * self.config.tiles
        return self.workload.places // vectors + self.workload.vector_rows + 2

    @property
    def blocks(self) -> int:
        return -(-self.items // self.config.warps)

    @property
    def threads(self) -> int:
        return 32 * self.config.warps

    @property
    def registers(self) -> int:
        """Estimate of a thread's registers: gathered words, sums, columns, rows of a."""
        words = self.lane_bytes // 4 * self.config.chunks
        config = self.config
        sums = 4 * self.planes * config.tiles
        of_a = words * (2 if config.ahead else 1)
        widened = 4 if self.digits == 2 or is_four_bit(self.workload.a_dtype) else 0
        gathered = 2 * config.tiles * (words + 2)
        return gathered + sums + of_a + widened + _OTHER_REGISTERS

    def resident(self, target: Target) -> int:
        """Blocks that a multiprocessor holds at once; 0 where one does not fit."""
        return blocks_held(0, allocated(self.registers), self.threads, target)
