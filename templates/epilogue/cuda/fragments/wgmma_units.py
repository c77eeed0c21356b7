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


def unit_at(step: Any, blocks: int, groups: int, channels: int, channels_outer: bool) -> Unit:
    """The unit that a thread with all of a tile's `channels`-wide groups comes to at a step."""
    if channels_outer:
        block, group = step % blocks, step // blocks
    else:
        block, group = step // groups, step % groups
    index = block * groups + group
    return Unit(index, index * (2 * channels), block, group)
