"""Units of an epilogue over wgmma accumulators: one 64-row block and one group of channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Unit:
    """A thread's accumulators of a unit.

    accumulator: the first of them; index: the unit's place among those that the thread finishes.
    """

    index: Any
    accumulator: Any
    block: Any
    group: Any


class GroupedColumns:
    """Columns of a tile of which every thread has as many consecutive channels in each group.

    Subclasses say which: first_column: where the groups begin in a tile; channels: a thread's of a
    group, of 4 * channels columns; groups: how many; block_accumulators: a thread's of a 64-row
    block, of which other columns may have some.
    """

    first_column: int
    channels: int
    groups: int
    block_accumulators: int

    def column(self, group: Any) -> Any:
        """The first column of a group, within a tile."""
        return self.first_column + group * (4 * self.channels)

    def unit_of(self, block: Any, group: Any) -> Unit:
        """The unit of a block and a group, of a thread that finishes all of them."""
        first = block * self.block_accumulators + self.first_column // 2
        accumulator = first + group * (2 * self.channels)
        return Unit(block * self.groups + group, accumulator, block, group)

    def unit_at(self, step: Any, blocks: int, channels_outer: bool) -> Unit:
        """The unit at a step of such a thread: all blocks of a group first, or all its groups."""
        if channels_outer:
            return self.unit_of(step % blocks, step // blocks)
        return self.unit_of(step // self.groups, step % self.groups)
