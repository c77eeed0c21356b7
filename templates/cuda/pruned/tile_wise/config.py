"""Knobs of the tile-wise kernel on wgmma, and what follows from them: stages and shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.composed.pruned_product import PrunedProduct
from autoq.templates.cuda.device.launch.registers import RegisterBudget, register_budget
from autoq.templates.cuda.device.memory.turn import TURN_BYTES
from autoq.templates.cuda.device.mma.wgmma import K_BYTES
from autoq.templates.cuda.pruned.tile_wise.tiling import (
    BESIDE_SUMS,
    HELPING,
    WARPGROUP,
    InstructionTiling,
    M,
)

UNIT_BYTES = 16
_GATHERING = 56
"""Registers of a thread that gathers."""
_OWN_BARRIERS = 32
"""Bytes of the barriers of outputs, and of what helpers tell each other."""


@dataclass(frozen=True)
class TileWiseConfig:
    """Configuration of the tile-wise kernel.

    rows: rows of y that a block computes together, for the columns of one tile.
    consumers: warpgroups that share them.
    depth: gathered rows of a stage, in reductions of one instruction.
    stages: of the ring of gathered rows and weights.
    blocks: blocks that share a multiprocessor.
    bulk: quarters of the gathered rows that come by a bulk copy each; pieces of 16 bytes of the
        others are copied by threads, which is another way to shared memory.
    joined: tiles that are multiplied as one, which gathers what any of them keeps.
    ahead: whether the rows of a product are read while the one before is under way.
    cluster: neighbouring blocks of the same tile; each copies a part of its weights for all.
    swizzled: whether units of 16 bytes of gathered rows change places, or 16 bytes lie behind rows,
        for the banks of shared memory.
    helped: whether a warpgroup more stores outputs while others go on.
    fused: whether these helpers turn x first, in the same launch.
    """

    rows: int
    consumers: int
    depth: int
    stages: int
    blocks: int
    bulk: int
    joined: int = 1
    cluster: int = 1
    ahead: bool = False
    swizzled: bool = False
    helped: bool = False
    fused: bool = False


@dataclass(frozen=True)
class TileWiseTiling(InstructionTiling):
    """A tile-wise product cut by a configuration."""

    view: PrunedProduct
    config: TileWiseConfig

    @property
    def product(self) -> PrunedProduct:
        return self.view

    @property
    def paired(self) -> bool:
        return self.size == 1

    @property
    def size(self) -> int:
        """Bytes of a value of x."""
        return self.view.value.bytes

    @property
    def granularity(self) -> int:
        """Surviving columns of a tile, after tiles are joined."""
        return self.view.sparsity.granularity * self.config.joined

    @property
    def tiles(self) -> int:
        """Most tiles, at least one that writes what no tile computes."""
        return max(1, -(-self.view.tiles // self.config.joined))

    @property
    def stage_rows(self) -> int:
        """Gathered rows of a stage."""
        return self.config.depth * K_BYTES // self.size

    @property
    def row_tiles(self) -> int:
        return -(-self.view.m // self.config.rows)

    @property
    def pitch(self) -> int:
        """Values of a row of x transposed: whole row tiles."""
        return self.row_tiles * self.config.rows

    @property
    def items(self) -> int:
        """Pieces of work of clusters."""
        return self.tiles * self.row_groups

    @property
    def stages_of_tiles(self) -> int:
        """Most stages of all tiles."""
        structure, view = self.view.sparsity.structure, self.view
        longest = min(structure.longest_row * self.config.joined, view.k)
        of_longest = self.tiles * -(-longest // self.stage_rows)
        return max(1, min(of_longest, structure.blocks // self.stage_rows + self.tiles))

    @property
    def blocks_m(self) -> int:
        """Instructions of 64 rows of a consumer."""
        return self.config.rows // (M * self.config.consumers)

    @property
    def threads(self) -> int:
        """Threads of the consumers, of a warpgroup that gathers, and of helpers."""
        return WARPGROUP * (self.config.consumers + 1 + self.config.helped)

    @property
    def x_row_bytes(self) -> int:
        """A gathered row in shared memory, an odd number of 16-byte units, or of whole lines."""
        return self.config.rows * self.size + (0 if self.config.swizzled else UNIT_BYTES)

    @property
    def x_stage_bytes(self) -> int:
        return -(-self.stage_rows * self.x_row_bytes // 128) * 128

    @property
    def pieces_of_warp(self) -> int:
        """Pieces of 16 bytes that the threads of one of four warps copy of a stage."""
        rows = self.stage_rows // 4 * (4 - self.config.bulk) // 4
        return rows * self.config.rows * self.size // UNIT_BYTES

    @property
    def weight_stage_bytes(self) -> int:
        return self.config.depth * K_BYTES * self.width

    @property
    def staged_bytes(self) -> int:
        """16 rows of each warp; all rows, or what helpers turn, where there are helpers."""
        if self.config.helped:
            return max(4 * self.config.rows * self.row_pitch, TURN_BYTES)
        return 4 * self.config.consumers * 4 * 16 * self.row_pitch

    @property
    def smem_bytes(self) -> int:
        stage = self.x_stage_bytes + self.weight_stage_bytes + 16
        terms = 4 * self.config.consumers * self.terms_of_tile
        helpers = _OWN_BARRIERS if self.config.helped else 0
        return self.config.stages * stage + self.staged_bytes + terms + helpers

    @property
    def budget(self) -> RegisterBudget:
        """Registers of the threads that gather and of those that multiply."""
        config = self.config
        return register_budget(
            config.consumers, config.blocks, _GATHERING, HELPING if config.helped else 0
        )

    @property
    def helpers_fit(self) -> bool:
        """Whether helpers can have the registers that they need, and outputs are words."""
        least = max(HELPING, self.width // 2 + BESIDE_SUMS)
        return not self.config.helped or (self.in_words and self.budget.launch >= least)
