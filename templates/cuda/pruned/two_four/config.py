"""Knobs of the 2:4 sparse product on wgmma, and what follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoq.templates.arrays.table import ENTRIES
from autoq.templates.cuda.device.launch.registers import RegisterBudget, register_budget
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.cuda.pruned.two_four.view import TwoFourProduct
from autoq.templates.epilogue.cuda.short_forms.long_table import LONG_ENTRIES
from autoq.templates.target import Target

ROW_BYTES = 128
"""Of x in a stage: what a swizzle of 128 bytes holds."""
STEP_BYTES = 64
"""Of a row of x that one instruction takes."""
A_BYTES, METADATA_BYTES = 64 * 32, 128 * 4
"""Kept weights and metadata of 64 rows of weights and a step."""
_M = 64
_WARPGROUP = 128


@dataclass(frozen=True)
class TwoFourConfig:
    """Configuration of the 2:4 sparse product.

    columns: rows of y, which are columns of an instruction, of a block.
    consumers: warpgroups that multiply, each by weight rows of its own.
    blocks: of 64 weight rows of a consumer.
    stages: of the ring of x and weights.
    group: tiles of rows of y that blocks go through before they take the next weights.
    cluster: blocks of neighbouring tiles of weights; each loads a part of the rows of x for all.
    passing: rows of y that pass through shared memory at once.
    boxed: whether TMA copies them to y, while consumers go on.
    halved: whether clusters share the tiles behind the last whole round out in halves.
    """

    columns: int
    consumers: int
    blocks: int
    stages: int
    group: int
    cluster: int = 1
    passing: int = 64
    boxed: bool = False
    halved: bool = False


@dataclass(frozen=True)
class TwoFourTiling:
    """A 2:4 sparse product cut by a configuration."""

    view: TwoFourProduct
    config: TwoFourConfig

    @property
    def size(self) -> int:
        """Bytes of a value of x."""
        return self.view.value.bytes

    @property
    def atom(self) -> Wgmma:
        """The instruction, of weights by x."""
        return self._atom(self.config.columns)

    @property
    def half_atom(self) -> Wgmma:
        """That of half a tile."""
        return self._atom(self.config.columns // 2)

    def _atom(self, columns: int) -> Wgmma:
        work = self.view.workload
        sums = "float32" if self.view.floating else "int32"
        shape = (_M, columns, STEP_BYTES // self.size)
        return Wgmma(shape, work.weight_dtype, work.in_dtype, sums, sparse=True)

    @property
    def row_blocks(self) -> int:
        """Blocks of 64 weight rows of a tile."""
        return self.config.consumers * self.config.blocks

    @property
    def tile_rows(self) -> int:
        """Weight rows of a tile, which are columns of y."""
        return _M * self.row_blocks

    @property
    def weight_tiles(self) -> int:
        return -(-self.view.workload.n // self.tile_rows)

    @property
    def terms(self) -> int:
        """Columns of the epilogue's terms: those of whole tiles."""
        return self.weight_tiles * self.tile_rows

    @property
    def row_tiles(self) -> int:
        return -(-self.view.workload.m // self.config.columns)

    @property
    def items(self) -> int:
        """Pieces of work of a cluster."""
        return self.weight_tiles // self.config.cluster * self.row_tiles

    @property
    def k_stages(self) -> int:
        """Stages of a tile."""
        return -(-self.view.workload.k * self.size // ROW_BYTES)

    @property
    def steps(self) -> int:
        """Instructions along k of a stage."""
        return ROW_BYTES // STEP_BYTES

    @property
    def x_stage_bytes(self) -> int:
        return self.config.columns * ROW_BYTES

    @property
    def weight_stage_bytes(self) -> int:
        """Kept weights of all steps and blocks, then their metadata."""
        return self.steps * self.row_blocks * (A_BYTES + METADATA_BYTES)

    @property
    def stage_bytes(self) -> int:
        """Of the ring; x lies at multiples of the swizzle's period."""
        return -(-(self.x_stage_bytes + self.weight_stage_bytes) // 1024) * 1024

    @property
    def staged_row_bytes(self) -> int:
        """64 outputs; 16 bytes for the banks of the next row, unless they are swizzled."""
        return _M * self.view.out_bytes + (0 if self.config.boxed else 16)

    @property
    def places(self) -> int:
        """Of passing rows of a consumer: those of one are copied while others are laid out."""
        passes = self.config.blocks * self.config.columns // self.config.passing
        return 2 if self.config.boxed and passes > 1 else 1

    @property
    def smem_bytes(self) -> int:
        staged = self.places * self.config.consumers * self.config.passing * self.staged_row_bytes
        return self.config.stages * (self.stage_bytes + 16) + staged + self.table_bytes

    @property
    def table_bytes(self) -> int:
        """The epilogue's table, of twice as many entries where operands may allow a short form."""
        if not self.view.epilogue.table:
            return 0
        return LONG_ENTRIES if self.view.shortened else ENTRIES

    @property
    def vector_bytes(self) -> int:
        """Of a store to y."""
        return math.gcd(16, self.view.workload.n * self.view.out_bytes)

    @property
    def sums(self) -> int:
        """Accumulators of a thread."""
        return self.config.blocks * self.config.columns // 2

    @property
    def threads(self) -> int:
        return _WARPGROUP * (self.config.consumers + 1)

    @property
    def budget(self) -> RegisterBudget:
        """Registers of the loading threads and of those that multiply."""
        return register_budget(self.config.consumers, 1)

    def clusters(self, target: Target) -> int:
        """Clusters of blocks, each of which goes through pieces of work."""
        return min(self.items, target.units // self.config.cluster)

    def halves(self, target: Target) -> int:
        """Halves of the tiles behind the last whole round."""
        return 2 * (self.items % self.clusters(target))
