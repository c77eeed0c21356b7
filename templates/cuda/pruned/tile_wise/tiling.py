"""How tile-wise kernels cut a product for wgmma: what their configurations have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from autoq.templates.cuda.device.mma.wgmma import FLOATING_N, INTEGER_N
from autoq.templates.cuda.pruned.tile_wise.outputs import TileOutputs
from autoq.templates.target import Target

WARPGROUP = 128
M = 64
"""Rows of an instruction."""
HELPING = 72
"""Registers of a helper."""
BESIDE_SUMS = 28
"""Registers at launch that ptxas asks for beside those of an instruction's sums."""


class TileWiseKnobs(Protocol):
    """Knobs that every tile-wise configuration has.

    blocks: blocks that share a multiprocessor.
    cluster: neighbouring blocks of the same tiles; each copies a part of their weights for all.
    """

    @property
    def blocks(self) -> int: ...

    @property
    def cluster(self) -> int: ...


class InstructionTiling(TileOutputs):
    """A product whose tiles are as wide as an instruction, cut by a configuration."""

    config: TileWiseKnobs

    @property
    @abstractmethod
    def granularity(self) -> int:
        """Surviving columns of a tile, after tiles are joined."""

    @property
    @abstractmethod
    def row_tiles(self) -> int:
        """Blocks of rows of y."""

    @property
    @abstractmethod
    def blocks_m(self) -> int:
        """Instructions of 64 rows of a consumer."""

    @property
    @abstractmethod
    def smem_bytes(self) -> int:
        """Shared memory of a block."""

    @property
    def width(self) -> int:
        """Columns of an instruction: those of the widest tile, and some that are 0.

        Of tiles that no instruction has room for it is the widest one; a rule refuses them.
        """
        widest = min(self.granularity, self.product.n)
        known = FLOATING_N if self.product.floating else INTEGER_N
        return next((n for n in known if n >= widest), known[-1])

    @property
    def row_groups(self) -> int:
        """Row tiles of a cluster together."""
        return -(-self.row_tiles // self.config.cluster)

    @property
    def sums(self) -> int:
        """Accumulators of a thread."""
        return self.blocks_m * self.width // 2

    def fits(self, target: Target) -> bool:
        """Whether so many blocks fit a multiprocessor's shared memory."""
        whole = self.config.blocks * (self.smem_bytes + target.reserved_smem_bytes)
        return whole <= target.unit_smem_bytes and self.smem_bytes <= target.smem_bytes
