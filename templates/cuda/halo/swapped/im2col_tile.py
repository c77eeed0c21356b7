"""Output tile of conv2d_swapped_im2col: consecutive output pixels, fetched anew for every tap."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autoq.templates.cuda.halo.tile_shape import ShapedTile


@dataclass(frozen=True)
class Im2colTile(ShapedTile):
    """`columns` output pixels, whatever their image or row; a chunk is one tap of some channels.

    It answers what `SwappedTiling` and the halo pipeline ask of a tile: a chunk of the reduction
    fills one slot, [columns, row_bytes], and is one step.
    """

    steps = 1
    group_rows = 8
    pair_rows = 0
    pairs_taps = False
    scattered = False

    @property
    def columns(self) -> int:
        """Columns of one wgmma."""
        return self.shape.width

    @property
    def staged_rows(self) -> int:
        """Shared-memory rows that a store of the tile reads."""
        return self.shape.width

    @property
    def step_bytes(self) -> int:
        """Bytes of the reduction in a step."""
        return self.row_bytes

    @cached_property
    def chunks_of_a_tap(self) -> int:
        """Chunks of `row_channels`; the last one may reach past c and is zero-filled."""
        return -(-self.workload.c // self.row_channels)

    @cached_property
    def chunks(self) -> int:
        return self.workload.r * self.workload.s * self.chunks_of_a_tap

    @cached_property
    def reduction(self) -> int:
        """Length of a packed weight row."""
        return self.chunks * self.row_bytes

    @cached_property
    def load_bytes(self) -> int:
        """Bytes of one load."""
        return self.columns * self.row_bytes

    @property
    def touched_bytes(self) -> int:
        """Bytes from a slot's start that wgmma may read."""
        return self.load_bytes

    @cached_property
    def pixels(self) -> int:
        """Output pixels of the workload."""
        return self.workload.n * self.workload.p * self.workload.q

    @cached_property
    def tiles(self) -> int:
        return -(-self.pixels // self.columns)

    @cached_property
    def useful(self) -> float:
        """Share of the computed columns that are output pixels."""
        return self.pixels / (self.tiles * self.columns)

    def tap_row(self, step: Any) -> int:
        """Rows that a step's reads are shifted by: none."""
        return 0
