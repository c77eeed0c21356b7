"""Knobs of the tile-wise kernel that picks on mma.sync, and what follows from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from autoq.templates.cuda.device.launch.occupancy import blocks_held
from autoq.templates.cuda.pruned.picked.config import PickedConfig, PickedTiling
from autoq.templates.cuda.pruned.picked.operand import Operand
from autoq.templates.target import Target

DEPTH = 2
"""Reductions of one instruction in a stage of weights."""
WARP_M = 16
"""Rows of an instruction."""
_PICKING = 18
"""Registers of words and of what they make, for each 16 rows of a warp."""
_OTHER = 44
"""Registers of addresses, and of weights under way."""


@dataclass(frozen=True)
class PickedMmaConfig:
    """Configuration of the kernel.

    rows: rows of y of a block, which computes one tile.
    warps: of a block, which share its rows.
    x_stages: of the ring of x, each of up to 128 bytes of k.
    stages: of the ring of weights.
    joined: tiles that are multiplied as one.
    """

    rows: int
    warps: int
    x_stages: int
    stages: int
    joined: int = 1


class PickedCut(PickedTiling):
    """Tiles as wgmma's kernel cuts them, whose registers are not those of one of its consumers."""

    @property
    def listed(self) -> bool:
        return False

    @property
    def next_at(self) -> int:
        """Bytes of a stage before the word that says how many stages of x begin with the next one.

        It is one of what the second step picks, with which none begins.
        """
        return self.picks_at + self.picks_bytes


class BlockKnobs(Protocol):
    """Knobs of every kernel whose block computes one tile, and whose warps share its rows."""

    @property
    def rows(self) -> int: ...

    @property
    def warps(self) -> int: ...

    @property
    def x_stages(self) -> int: ...

    @property
    def stages(self) -> int: ...


class BlockTiling(ABC):
    """A product in tiles of a block each, cut by a configuration."""

    operand: Operand
    config: BlockKnobs

    @property
    @abstractmethod
    def cut(self) -> PickedCut:
        """The same tiles of wgmma's kernel, of whose stages the rings are."""

    @property
    @abstractmethod
    def registers(self) -> int:
        """About those of a thread."""

    @property
    def sides(self) -> int:
        """Tiles that a block computes of the same rows of x, each by warps of its own."""
        return 1

    @property
    def threads(self) -> int:
        return 32 * self.config.warps * self.sides

    @property
    def blocks_m(self) -> int:
        """How many times 16 rows a warp has."""
        return self.config.rows // (WARP_M * self.config.warps)

    @property
    def blocks(self) -> int:
        return self.cut.groups * self.cut.row_tiles

    @property
    def sums(self) -> int:
        """Accumulators of a thread."""
        return self.blocks_m * self.cut.width // 2

    @property
    def smem_bytes(self) -> int:
        """The rings, 16 rows of outputs of each warp, and the terms of each four warps."""
        config, cut = self.config, self.cut
        weights = self.sides * config.stages * cut.weight_bytes
        rings = config.x_stages * cut.x_stage_bytes + weights
        return rings + self.staged_bytes + self.threads // 128 * 4 * cut.terms_of_tile

    @property
    def staged_bytes(self) -> int:
        """Of 16 rows of outputs of each warp."""
        return 4 * self.threads // 32 * WARP_M * self.cut.row_pitch

    def resident(self, target: Target) -> int:
        """Blocks that a multiprocessor has shared memory, registers and threads for."""
        return blocks_held(self.smem_bytes, self.registers, self.threads, target)


@dataclass(frozen=True)
class PickedMmaTiling(BlockTiling):
    """A tile-wise product cut by a configuration."""

    operand: Operand
    config: PickedMmaConfig

    @property
    def cut(self) -> PickedCut:
        """The same tiles of wgmma's kernel, whose stages are packed in the same way."""
        config = self.config
        return PickedCut(
            self.operand,
            PickedConfig(
                config.rows, 1, 1, config.x_stages, DEPTH, config.stages, joined=config.joined
            ),
        )

    @property
    def registers(self) -> int:
        return self.sums + self.blocks_m * _PICKING + _OTHER
