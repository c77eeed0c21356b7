"""Knobs of the register-tiled CPU convolution."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConvConfig:
    """One register tile and how its repetitions are ordered and shared out.

    lanes: output channels of a vector.
    tile_p: output rows of a register tile.
    tile_q: output columns of a register tile.
    vectors: vectors of output channels of a tile.
    rows: output rows that one task computes.
    channel_tasks: tasks that share the output channels.
    channels_outer: a task walks all its pixels for one channel tile before the next (weights
        stay in the cache), instead of the other way round (pixels stay).
    """

    lanes: int
    tile_p: int
    tile_q: int
    vectors: int
    rows: int
    channel_tasks: int
    channels_outer: bool

    @property
    def pixels(self) -> int:
        """Output pixels of a register tile."""
        return self.tile_p * self.tile_q
