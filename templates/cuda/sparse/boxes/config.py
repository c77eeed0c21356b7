"""Knobs of sparse products over boxes of all rows of b, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from autoq.templates.cuda.device.launch.registers import RegisterBudget, register_budget
from autoq.templates.cuda.device.turned.row_steps import (
    DEPTH,
    LINE_BYTES,
    STAGE_K,
    most_blocks,
    whole_rounds,
    window_stages,
)
from autoq.templates.cuda.sparse.wgmma.config import TEAM_COLUMNS, LongConfig, LongTiling
from autoq.templates.operators.spmm import Spmm
from autoq.templates.target import Target

STEP_BYTES = 32
"""Of a row of the vectors, that one instruction takes."""
OF_AN_INSTRUCTION = 30
"""Registers that ptxas asks for at launch beside an instruction's sums."""
OTHER_REGISTERS = 32
_BARRIERS = 16


@dataclass(frozen=True)
class BoxesConfig:
    """Configuration of sparse products over boxes of all rows of b.

    sides: vector rows that a block multiplies side by side, by the same boxes.
    teams: warpgroups of each side.
    tiles: times 64 columns of y that a warpgroup computes.
    b_stages: stages of the ring of boxes, each of 64 rows of b.
    stages: of the ring of a side's vectors, each of two instructions' rows.
    fragments: of steps, that a thread holds: half of them are read while the others are multiplied.
    parted: whether pieces of work behind the last whole round are of one side each.
    streamed: whether y leaves the L2 before what is read again.
    """

    sides: int
    teams: int
    tiles: int
    b_stages: int
    stages: int
    fragments: int = 4
    parted: bool = False
    streamed: bool = True


@dataclass(frozen=True)
class BoxesTiling:
    """A product cut by a configuration."""

    workload: Spmm
    config: BoxesConfig
    digit_bits: ClassVar[int] = 8
    left_digits: ClassVar[int] = 1
    right_digits: ClassVar[int] = 1
    planes: ClassVar[int] = 1
    b_offset: ClassVar[int] = 0

    @cached_property
    def as_long(self) -> LongTiling:
        """The warpgroups of a side, as those of gathered rows: outputs are the same."""
        long = LongConfig(self.config.teams, self.config.tiles, 32, 2, persistent=True)
        return LongTiling(self.workload, long)

    @property
    def columns(self) -> int:
        """Columns of y that a block computes."""
        return TEAM_COLUMNS * self.config.teams * self.config.tiles

    @property
    def lines(self) -> int:
        """Of 128 bytes, in which a row of b lies in a stage."""
        return self.columns // LINE_BYTES

    @property
    def panels(self) -> int:
        return -(-self.workload.n // self.columns)

    @property
    def groups(self) -> int:
        """Vector rows side by side."""
        return -(-self.workload.vector_rows // self.config.sides)

    @property
    def items(self) -> int:
        """Pieces of work."""
        return self.groups * self.panels

    def blocks(self, target: Target) -> int:
        """Blocks of a launch, each of which goes through pieces of work."""
        return min(self.items, target.units)

    @property
    def k_stages(self) -> int:
        """Stages of boxes of a piece of work, whole rounds of their ring."""
        return whole_rounds(self.workload.k, self.config.b_stages)

    @property
    def block_rows(self) -> int:
        """Rows of b of a stage of vectors."""
        return DEPTH * STEP_BYTES

    @property
    def most_stages(self) -> int:
        """Stages of vectors of all vector rows, at most.

        Those that are not full end where a row of b would be held too long.
        """
        workload = self.workload
        late = -(-self.k_stages // (window_stages(self.config.b_stages) - 1)) + 1
        rows = workload.vector_rows
        each = min(most_blocks(workload.k, 1) * rows,
                   workload.structure.blocks // self.block_rows + rows * (late + 1))  # fmt: skip
        return max(1, each)

    @property
    def values_bytes(self) -> int:
        """Vectors of a stage."""
        return DEPTH * STEP_BYTES * self.workload.vector

    @property
    def packed_bytes(self) -> int:
        """Vectors of a stage, and behind them each lane's word."""
        return self.values_bytes + LINE_BYTES

    @property
    def b_stage_bytes(self) -> int:
        return self.lines * STAGE_K * LINE_BYTES

    @property
    def rings_bytes(self) -> int:
        """Of boxes, and of all sides' vectors."""
        config = self.config
        vectors = config.sides * config.stages * self.packed_bytes
        return config.b_stages * self.b_stage_bytes + vectors

    @property
    def staging_bytes(self) -> int:
        """Where a warpgroup puts narrow outputs together."""
        return self.as_long.staging_bytes if self.as_long.stages_outputs else 0

    @property
    def smem_bytes(self) -> int:
        """Rings, places of outputs, terms of two pieces of work, barriers of stages."""
        config = self.config
        staged = config.sides * config.teams * self.staging_bytes
        terms = config.sides * 2 * self.as_long.term_bytes
        barriers = _BARRIERS * (config.b_stages + config.sides * config.stages)
        return self.rings_bytes + staged + terms + barriers

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.config.sides * self.config.teams

    @property
    def threads(self) -> int:
        return 128 * (self.consumers + 1)

    @property
    def budget(self) -> RegisterBudget:
        """Registers of a thread that loads, and of one that multiplies."""
        return register_budget(self.consumers, 1)

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return self.config.tiles * self.workload.vector // 2

    @property
    def registers(self) -> int:
        """Estimate of a thread's registers: sums, fragments, and others."""
        held = self.config.fragments * 4 * self.config.tiles
        return self.sums + held + OTHER_REGISTERS

    @property
    def terms(self) -> int:
        """Rows of all vector rows."""
        return self.workload.vector_rows * self.workload.vector

    @property
    def finished_columns(self) -> int:
        """Columns that a warp finishes together."""
        return self.as_long.finished_columns

    @property
    def neighbours(self) -> int:
        """Outputs of a lane that are computed together."""
        return self.as_long.neighbours
