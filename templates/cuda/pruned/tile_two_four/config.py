"""Knobs of products that are 2:4 inside tiles on mma.sp, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.device.mma.sparse_fragments import FRAGMENT_BYTES
from autoq.templates.cuda.pruned.picked.config import PickedConfig
from autoq.templates.cuda.pruned.picked.operand import Operand
from autoq.templates.cuda.pruned.picked.steps import WORD_BYTES
from autoq.templates.cuda.pruned.picked_mma_sync.config import BlockTiling, PickedCut
from autoq.templates.cuda.pruned.tile_two_four.chunks import REGISTERS, most_steps

STEP_BYTES = 64
"""Of k that one instruction takes, half of which is kept."""
COLUMNS = 16
"""Columns of y of an instruction."""
_LANE_WORDS_BYTES = 128
"""A word of each lane."""
_PICKS_BYTES = STEP_BYTES
"""Four words of each of four lanes."""
_OTHER = 44
"""Registers of addresses, of weights and of their metadata."""


@dataclass(frozen=True)
class TileTwoFourConfig:
    """Configuration of the kernel.

    rows: rows of y of a block.
    sides: tiles that a block computes side by side, of the same x.
    warps: of each tile, which share its rows.
    x_stages: of the ring of x, each of up to 128 bytes of k.
    stages: of the ring of weights, of one instruction's reduction each.
    ahead: whether the words of a step are read while the step before is multiplied.
    """

    rows: int
    sides: int
    warps: int
    x_stages: int
    stages: int
    ahead: bool = True


class TwoFourCut(PickedCut):
    """Tiles whose columns are the rows of sparse instructions."""

    @property
    def by_columns(self) -> bool:
        return True

    @property
    def paired(self) -> bool:
        return True

    @property
    def width(self) -> int:
        """Columns of whole instructions."""
        return -(-super().width // COLUMNS) * COLUMNS

    @property
    def atom(self) -> MmaSync:
        """The instruction, of 16 columns by 8 rows of y."""
        work = self.view.workload
        sums = "float32" if self.view.floating else "int32"
        shape = (COLUMNS, 8, STEP_BYTES // self.size)
        return MmaSync(shape, work.weight_dtype, work.in_dtype, sums, sparse=True)

    @property
    def blocks_n(self) -> int:
        """Instructions that a tile has side by side."""
        return self.width // COLUMNS

    @property
    def places_at(self) -> int:
        """Bytes of kept values of a stage, behind which their metadata are."""
        return self.blocks_n * FRAGMENT_BYTES

    @property
    def metadata_words(self) -> int:
        """Of a lane: 16-bit floats have those of two instructions in one."""
        return -(-self.blocks_n // self.size)

    @property
    def picks_at(self) -> int:
        return self.places_at + self.metadata_words * _LANE_WORDS_BYTES

    @property
    def next_at(self) -> int:
        """A word of the third register, with which no stage begins."""
        return self.picks_at + 2 * WORD_BYTES

    @property
    def weight_bytes(self) -> int:
        """Bytes of a stage with what is picked, in whole lines."""
        return -(-(self.picks_at + _PICKS_BYTES) // 128) * 128

    @property
    def stages_of_tile(self) -> int:
        """Most stages of a tile's weights."""
        known, k = self.view.sparsity, self.view.k
        groups = k if known.beside is None else known.beside.longest_row
        rows = min(known.structure.longest_row, k)
        return most_steps(rows, min(groups, rows), self.size, self.k_stages)


@dataclass(frozen=True)
class TileTwoFourTiling(BlockTiling):
    """A product that is 2:4 inside tiles cut by a configuration."""

    operand: Operand
    config: TileTwoFourConfig

    @property
    def cut(self) -> TwoFourCut:
        config = self.config
        picked = PickedConfig(config.rows, config.sides, 1, config.x_stages, 1, config.stages)
        return TwoFourCut(self.operand, picked)

    @property
    def sides(self) -> int:
        return self.config.sides

    @property
    def registers(self) -> int:
        """About those of a thread: sums, what words make, words under way, and others."""
        fragments = 1 + (self.config.ahead or 1 / REGISTERS)
        return self.sums + int(2 * self.blocks_m * REGISTERS * fragments) + _OTHER
