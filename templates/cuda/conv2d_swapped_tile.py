"""Output tile of conv2d_swapped: pixels are the columns of one wgmma over the halo in place."""

from __future__ import annotations

from functools import cached_property

from autoq.templates.cuda.halo_tile import WIDTH, HaloTile
from autoq.templates.tiles.wgmma import SHAPES_N

COLUMNS = tuple(n for n in SHAPES_N if n % 16 == 0)
"""Widths of a wgmma whose columns stmatrix stores in whole matrices."""


class SwappedTile(HaloTile):
    """A tile of one image whose pixels are the columns of D [channels, pixels].

    A group of eight columns is one row of a box tile, or eight successive halo pixels of a flat
    one. Flat tiles span the output's width: what they compute beyond it, TMA clips off.
    """

    @cached_property
    def pixels(self) -> int:
        """Columns up to the last output pixel."""
        if self.flat:
            return (self.height - 1) * self.halo_width + self.width
        return self.height * WIDTH

    @cached_property
    def columns(self) -> int:
        """Columns of one wgmma; 0 when there are more pixels than any has."""
        return min((n for n in COLUMNS if n >= self.pixels), default=0)

    @cached_property
    def store_width(self) -> int:
        """Pixels between two rows of the tile, as it is stored."""
        return self.halo_width if self.flat else WIDTH

    @cached_property
    def staged_rows(self) -> int:
        """Shared-memory rows that a store of the tile reads; at least its columns."""
        return max(self.columns, self.height * self.store_width)

    @cached_property
    def touched_bytes(self) -> int:
        """Bytes from a slot's start that wgmma may read, columns thrown away included."""
        last = (self.columns // 8 - 1) * self.group_rows + 7
        last += self.tap_row(self.steps - 1) + self.pair_rows
        return (last + 1) * self.row_bytes

    @cached_property
    def useful(self) -> float:
        """Share of the computed columns that are output pixels."""
        workload = self.workload
        return workload.n * workload.p * workload.q / (self.tiles * self.columns)
