"""What a block of the correction holds: rows of residuals of a, all of k, in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.templates.cuda.device.launch.occupancy import shared_memory_fits
from autoq.templates.target import Target

TILE_SUMS = 1024
"""Sums of a warp's tile: two turns of 16 for each lane."""

_SHAPES = ((8, 2), (16, 1), (8, 1))
"""Warps of a block and blocks of a multiprocessor, which leave 128 registers to a thread."""


@dataclass(frozen=True)
class Panel:
    """Rows of y that a block takes, and how many warps share them.

    k: values of a row, filled up; held: whether its residuals are in shared memory; together:
    blocks of a multiprocessor.
    """

    rows: int
    k: int
    warps: int
    together: int
    held: bool

    @property
    def columns(self) -> int:
        """Columns of a warp's tile."""
        return TILE_SUMS // self.rows

    @property
    def held_bytes(self) -> int:
        """Shared memory of the residuals."""
        return self.rows * self.k if self.held else 0

    @property
    def smem_bytes(self) -> int:
        """Shared memory of a block."""
        return self.held_bytes + self.warps * TILE_SUMS * 4


def panel_of(rows: int, k: int, target: Target) -> Panel:
    """The panel of so many rows that fits; one that is not held where none does."""
    shapes = [Panel(rows, k, warps, together, True) for warps, together in _SHAPES]
    fits = (one for one in shapes if shared_memory_fits(one.smem_bytes, one.together, target))
    return next(fits, Panel(rows, k, *_SHAPES[0], False))
