"""Knobs of a product of two activations on wgmma."""

from __future__ import annotations

from dataclasses import dataclass

WARPGROUP_COLUMNS = 64
"""Columns of y of a warpgroup: the rows of one wgmma."""


@dataclass(frozen=True)
class BatchedWgmmaConfig:
    """Knobs of a product of two activations on wgmma.

    columns: warpgroups of a block side by side, each with 64 columns of y at a time.
    passes: parts of 64 columns that a warpgroup computes one after the other.
    row_groups: warpgroups of a block one below the other, each with rows of its own.
    rows: rows of y of a warpgroup, the columns of one wgmma.
    stages: shared-memory buffers of the load pipeline.
    cluster: blocks with the same columns of y that share other, of which each loads a part for all.
    blocks_per_sm: blocks that the register allocation leaves room for on a multiprocessor.
    """

    columns: int
    passes: int
    row_groups: int
    rows: int
    stages: int
    cluster: int
    blocks_per_sm: int

    @property
    def warpgroups(self) -> int:
        return self.columns * self.row_groups

    @property
    def parts(self) -> int:
        """Parts of 64 columns of y of a block."""
        return self.columns * self.passes

    @property
    def threads(self) -> int:
        return 128 * self.warpgroups

    @property
    def block_m(self) -> int:
        """Rows of y of a block."""
        return self.row_groups * self.rows

    @property
    def block_n(self) -> int:
        """Columns of y of a block."""
        return self.parts * WARPGROUP_COLUMNS
