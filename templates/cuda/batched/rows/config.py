"""Knobs of a product of two activations whose rows of x pass through registers."""

from __future__ import annotations

from dataclasses import dataclass

WARPGROUP_ROWS = 64
"""Rows of y of a warpgroup: the rows of one wgmma."""


@dataclass(frozen=True)
class BatchedRowsConfig:
    """Knobs of a product of two activations whose rows of x pass through registers.

    row_groups: warpgroups of a block, each with 64 rows of y; those of one pair share other.
    blocks_per_sm: blocks that the register allocation leaves room for on a multiprocessor.
    """

    row_groups: int
    blocks_per_sm: int

    @property
    def threads(self) -> int:
        return 128 * self.row_groups
