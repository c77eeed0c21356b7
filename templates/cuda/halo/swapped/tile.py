"""Output tile of conv2d_swapped: pixels are the columns of one wgmma over the halo in place."""

from __future__ import annotations

from functools import cached_property

from autoq.search.lanes import choose, most
from autoq.templates.cuda.device.mma.wgmma import INTEGER_N
from autoq.templates.cuda.halo.tile import WIDTH, HaloTile

COLUMNS = tuple(n for n in INTEGER_N if n % 16 == 0)
"""Widths of a wgmma whose columns stmatrix stores in whole matrices."""


class SwappedTile(HaloTile):
    """A tile whose pixels are the columns of D [channels, pixels].

    A group of eight columns is one row of a box tile, or eight successive halo pixels of a flat
    one. A flat tile of several images has them innermost, in shared memory as in its columns: the
    halo pixels of a row are then `images` columns each, and a row wastes none. Flat tiles of
    several rows span the output's width: what they compute beyond it, TMA clips off.
    """

    @property
    def scattered(self) -> bool:
        return self.shape.images > 1

    @cached_property
    def pixels(self) -> int:
        """Columns up to the last output pixel."""
        over_halo = (self.shape.height - 1) * self.halo_width + self.shape.width
        return choose(self.shape.flat, over_halo * self.shape.images, self.shape.height * WIDTH)

    @cached_property
    def columns(self) -> int:
        """Columns of one wgmma; 0 when there are more pixels than any has."""
        found = 0
        for n in sorted(COLUMNS, reverse=True):
            found = choose(self.pixels <= n, n, found)
        return found

    @cached_property
    def store_width(self) -> int:
        """Pixels between two rows of the tile, as it is stored."""
        over_halo = choose(self.shape.height > 1, self.halo_width, self.shape.width)
        return choose(self.shape.flat, over_halo, WIDTH)

    @cached_property
    def staged_rows(self) -> int:
        """Shared-memory rows that a store of the tile reads; at least its columns."""
        return most(self.columns, self.shape.height * self.store_width * self.shape.images)

    @cached_property
    def touched_bytes(self) -> int:
        """Bytes from a slot's start that wgmma may read, columns thrown away included."""
        last = (self.columns // 8 - 1) * self.group_rows + 7
        last += self.tap_row(self.steps - 1) + self.pair_rows
        return (last + 1) * self.row_bytes

    @cached_property
    def pair_rows(self) -> int:
        return choose(self.pairs_taps, self.workload.dilation[1] * self.shape.images, 0)

    def tap_row(self, step: int) -> int:
        return super().tap_row(step) * self.shape.images

    def pixel(self, block: int, m: int) -> tuple[int, int, int]:
        """Image, row and column inside the tile of column m; there is one block."""
        pitch = self.halo_width if self.shape.flat else WIDTH
        pixel = m // self.shape.images
        return m % self.shape.images, pixel // pitch, pixel % pitch

    @cached_property
    def useful(self) -> float:
        """Share of the computed columns that are output pixels."""
        workload = self.workload
        return workload.n * workload.p * workload.q / (self.tiles * self.columns)
