"""Knobs of the panel kernel, and what follows from them: steps, parts, shared memory, registers."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.cuda.device.launch.occupancy import allocated, blocks_held, register_limit
from autoq.templates.operators.spmm import Spmm
from autoq.templates.target import Target

STEP = 32
"""Vectors of one step: the reduction of a product of bytes."""

GROUP = 8
"""Rows of y that a warp computes together: the columns of a product's right factor."""

BANK_ROWS = 8
"""Rows of the panel that are read at once, without a conflict where they differ modulo 8."""

_COPY_SMEM_BYTES = 224 << 10
"""What blocks with copies take of a multiprocessor of 227 KB."""

_OTHER_REGISTERS = 30
_SPARE_REGISTERS = 7
"""Besides, where a thread spills with fewer: see `PanelTiling.spills`."""
_HOPPER = 90
"""Compute capability."""
_NIBBLE_REGISTERS = 44
"""Of nibbles beside sums and steps that are read ahead: two chunks' gathered words among them."""


@dataclass(frozen=True)
class PanelConfig:
    """Configuration of the panel kernel.

    columns: columns of b, and of y, that a block computes; a lane reads an eighth at a time.
    warps: warps of a block, which share its steps evenly.
    parts: blocks that share the rows of y, of each panel of columns.
    prefetch: steps of a warp whose vectors are read ahead.
    staged: whether a block keeps its columns of b in shared memory; else rows are read from the L2.
    copies: whether as many rows of the panel as fit have a second place, in other banks.
    streamed: whether y, and columns of b on their way to a panel, leave the L2 before the vectors,
        which all panels read.
    """

    columns: int
    warps: int
    parts: int
    prefetch: int
    staged: bool = True
    copies: bool = False
    streamed: bool = False


@dataclass(frozen=True)
class PanelTiling:
    """A sparse product cut by a configuration."""

    workload: Spmm
    config: PanelConfig

    @property
    def groups(self) -> int:
        """Groups of eight rows."""
        return -(-self.workload.m // GROUP)

    @property
    def terms(self) -> int:
        """Rows of all groups and one more, which is read ahead of the end."""
        return (self.groups + 1) * GROUP

    @property
    def step(self) -> int:
        """Vectors of one step."""
        return STEP

    @property
    def longest(self) -> int:
        """Most vectors of a group: those of shorter vectors are joined."""
        joined = GROUP // self.workload.short.vector
        return min(self.workload.longest * joined, self.workload.k)

    @property
    def steps(self) -> int:
        """Most steps of all groups: each has one at least, and fills up its last one."""
        blocks = self.workload.short.structure.blocks
        of_longest = self.groups * max(1, -(-self.longest // self.step))
        return min(of_longest, self.groups + blocks // self.step)

    @property
    def packed_steps(self) -> int:
        """Steps of the packed arrays: those that are read ahead lie behind the last."""
        return self.steps + self.config.prefetch

    @property
    def panels(self) -> int:
        return -(-self.workload.n // self.config.columns)

    @property
    def blocks(self) -> int:
        return self.panels * self.config.parts

    @property
    def threads(self) -> int:
        return 32 * self.config.warps

    @property
    def digit_bits(self) -> int:
        """Bits of what a product takes of a value of either side."""
        return 8

    @property
    def left_digits(self) -> int:
        """Bytes of a value: products take one at a time, the highest with its sign."""
        return 2 if element(self.workload.weight_dtype).bits == 16 else 1

    @property
    def right_digits(self) -> int:
        """Bytes of a value of b in the panel; those of 4 bits are widened on their way there."""
        return 2 if element(self.workload.in_dtype).bits == 16 else 1

    @property
    def b_offset(self) -> int:
        """How much higher than values of b what is multiplied is: widened nibbles have no signs."""
        return 8 if self.workload.in_dtype == "int4" else 0

    @property
    def planes(self) -> int:
        """Sums of an output: one for each place that products of digits have, one of floats."""
        if self.workload.floating:
            return 1
        return self.left_digits + self.right_digits - 1

    @property
    def finished_columns(self) -> int:
        """Columns of y that a warp finishes together."""
        return self.config.columns

    @property
    def neighbours(self) -> int:
        """Columns of a lane that are neighbours in y."""
        return self.config.columns // 8

    @property
    def row_bytes(self) -> int:
        """A row of the panel."""
        return self.config.columns * self.right_digits

    @property
    def first_copy(self) -> int:
        """Place of the first row that has a second one: behind all rows, in whole eights."""
        return -(-self.workload.k // BANK_ROWS) * BANK_ROWS

    @property
    def copied_rows(self) -> int:
        """Rows that have a second place, whole eights, the first ones of b."""
        if not self.config.copies:
            return 0
        room = _COPY_SMEM_BYTES - self.first_copy * self.row_bytes - self.sum_bytes
        fitting = max(0, room) // self.row_bytes
        return min(fitting, self.workload.k) // BANK_ROWS * BANK_ROWS

    @property
    def panel_bytes(self) -> int:
        """Shared memory of the columns of b."""
        if not self.config.staged:
            return 0
        rows = self.first_copy + self.copied_rows if self.copied_rows else self.workload.k
        return rows * self.row_bytes

    @property
    def sum_bytes(self) -> int:
        """Sums of the group that each warp goes on with after another one."""
        return 4 * GROUP * self.config.columns * self.config.warps * self.planes

    @property
    def smem_bytes(self) -> int:
        return self.panel_bytes + self.sum_bytes

    @property
    def registers(self) -> int:
        """Estimate of a thread's registers: sums, steps read ahead, gathered and turned words."""
        own = self.config.columns // 8
        places = 1 if self.config.staged else 8
        ahead = (places + 2 * self.left_digits) * self.config.prefetch
        return (
            2 * own * self.planes
            + ahead
            + _OTHER_REGISTERS
            + (8 if self.config.staged else 3 * own) * self.right_digits
        )

    def spills(self, target: Target) -> bool:
        """Whether ptxas keeps some of a thread's registers in local memory.

        It takes more than the estimate for sums of several digits, for floats where rows have
        second places, and on GPUs before Hopper.
        """
        copied_floats = self.workload.floating and self.config.copies
        older = target.compute_capability < _HOPPER
        spare = _SPARE_REGISTERS if self.planes > 1 or copied_floats or older else 0
        return self.registers + spare > register_limit(self.threads, 1, target)

    def resident(self, target: Target) -> int:
        """Blocks that a multiprocessor holds at once; 0 where one does not fit."""
        return blocks_held(self.smem_bytes, allocated(self.registers), self.threads, target)

    @property
    def whole(self) -> bool:
        """Whether 16 bytes of the panel are aligned in b, or of 4 bits 8 bytes."""
        digits = 1 if is_four_bit(self.workload.in_dtype) else self.right_digits
        return self.workload.n * digits % 16 == 0


@dataclass(frozen=True)
class NibbleTiling(PanelTiling):
    """A panel of nibbles as they lie in b, and values of the sparse side in digits of 4 bits."""

    @property
    def step(self) -> int:
        return 2 * STEP

    @property
    def digit_bits(self) -> int:
        return 4

    @property
    def b_offset(self) -> int:
        return 0

    @property
    def left_digits(self) -> int:
        """Nibbles of a value."""
        return element(self.workload.weight_dtype).bits // self.digit_bits

    @property
    def row_bytes(self) -> int:
        return self.config.columns // 2

    @property
    def registers(self) -> int:
        own = self.config.columns // 8
        ahead = (1 + 2 * self.left_digits) * self.config.prefetch
        return 2 * own * self.planes + ahead + _NIBBLE_REGISTERS

    @property
    def whole(self) -> bool:
        """Whether 16 bytes of the panel are aligned in b."""
        return self.workload.n % (2 * 16) == 0
