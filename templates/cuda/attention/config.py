"""Knobs of attention on mma.sync."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AttentionConfig:
    """Knobs of attention on mma.sync.

    warps: warps of a block, each with query rows of its own.
    row_tiles: tiles of 16 query rows of one warp.
    tile_keys: keys whose scores a warp holds at a time.
    stages: shared-memory buffers of keys and values; 1 where one tile has all keys.
    holds_queries: whether fragments of the queries stay in registers, or are read again for every
        tile of keys.
    sums_of_products: whether sums of shares come of tensor cores, as one more column of ones among
        the values, instead of additions; of floats only.
    keeps_scores: whether a warp keeps quantised scores in shared memory, bytes each, instead of
        computing them again when its rows have been measured.
    blocks_per_sm: blocks that the register allocation leaves room for on a multiprocessor.
    """

    warps: int
    row_tiles: int
    tile_keys: int
    stages: int
    holds_queries: bool
    sums_of_products: bool
    keeps_scores: bool
    blocks_per_sm: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps

    @property
    def rows(self) -> int:
        """Query rows of a block."""
        return 16 * self.row_tiles * self.warps
