"""Knobs of attention of float32."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tf32AttentionConfig:
    """Knobs of attention of float32.

    warps: warps of a block, each with 16 query rows of its own.
    tile_keys: keys whose scores a warp holds at a time.
    stages: shared-memory buffers of keys and values; 1 where one tile has all keys.
    holds_queries: whether both parts of the queries stay in registers, or are read and parted again
        for every tile of keys.
    blocks_per_sm: blocks that the register allocation leaves room for on a multiprocessor.
    """

    warps: int
    tile_keys: int
    stages: int
    holds_queries: bool
    blocks_per_sm: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps

    @property
    def rows(self) -> int:
        """Query rows of a block."""
        return 16 * self.warps
