"""A block's output pixels as a box of fragments, and its halo in shared memory.

The duplicate-aware loads of conv2d_mma_sync copy the halo of a box once for all filter taps, and
find a tap's pixels in it through the genuine-index map.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.mma_sync.genuine_index import GenuineIndex, halo_origin
from autoq.templates.operators.conv2d import Conv2d

LANES = 8
"""Pixels of a fragment: the rows of one 8 x 16 byte matrix of ldmatrix."""


@dataclass(frozen=True)
class PixelBox:
    """`fragments` fragments of 8 output pixels, `columns` of them side by side.

    Row i of a block's tile is pixel i % 8 of fragment i // 8. The pixels of a fragment are 8
    images of one position (`images`), or 8 positions of an image row that lie `columns` apart.
    Either way a filter tap moves whole fragments, so that fragments of different taps coincide
    wherever their first pixels are one datum.

    The halo lies in shared memory pixel by pixel, in *slots*: the 8 pixels of a fragment are 8
    neighbouring slots for every tap, which keeps ldmatrix free of bank conflicts.
    """

    conv: Conv2d
    fragments: int
    columns: int
    images: bool

    @property
    def height(self) -> int:
        """Output rows of a box."""
        return self.fragments // self.columns

    @property
    def width(self) -> int:
        """Output columns of a box."""
        return self.columns * (1 if self.images else LANES)

    @property
    def depth(self) -> int:
        """Images of a box."""
        return LANES if self.images else 1

    @functools.cached_property
    def index(self) -> GenuineIndex:
        """The genuine-index map of one image's pixels."""
        return GenuineIndex.of(self.conv, self.height, self.width)

    @property
    def _boxes(self) -> tuple[int, int, int]:
        conv = self.conv
        return (
            ceil_div(conv.n, self.depth),
            ceil_div(conv.p, self.height),
            ceil_div(conv.q, self.width),
        )

    @property
    def count(self) -> int:
        """Boxes that cover the output."""
        images, rows, columns = self._boxes
        return images * rows * columns

    @property
    def _lane_step(self) -> int:
        """Halo columns from one pixel of a fragment to the next, where they share a row."""
        return self.columns * self.conv.stride[1]

    @functools.cached_property
    def row_slots(self) -> int:
        """Slots of a halo row; a few stay unused where they are not a whole number of lanes."""
        if self.images:
            return self.index.halo_width * LANES
        return ceil_div(self.index.halo_width, self._lane_step) * self._lane_step

    @functools.cached_property
    def slots(self) -> int:
        return self.index.halo_height * self.row_slots

    def slot(self, halo_row: int, halo_column: int) -> int:
        """Slot of a halo pixel, of the first image."""
        if self.images:
            return halo_row * self.row_slots + halo_column * LANES
        lanes = self.row_slots // self._lane_step
        within = halo_column % self._lane_step * lanes + halo_column // self._lane_step
        return halo_row * self.row_slots + within

    def halo_pixel(self, slot: Any) -> tuple[Any, Any, Any]:
        """(image, halo row, halo column) in a slot; integers and index expressions alike.

        The column of an unused slot is `halo_width` or more.
        """
        within = slot % self.row_slots
        if self.images:
            return within % LANES, slot // self.row_slots, within // LANES
        lanes = self.row_slots // self._lane_step
        column = within % lanes * self._lane_step + within // lanes
        return 0, slot // self.row_slots, column

    def fragment_slot(self, fragment: int, tap: int) -> int:
        """Slot of the first pixel that a fragment reads for filter tap `tap`; 7 more follow."""
        row, column = divmod(fragment, self.columns)
        return self.slot(*self.index.position(row * self.width + column, tap))

    def slots_between(self, fragments: int) -> int:
        """Slots from a fragment to the one `fragments` (whole rows of the box) further on."""
        return fragments // self.columns * self.conv.stride[0] * self.row_slots

    def first_pixel(self, box: Any) -> tuple[Any, Any, Any]:
        """(image, output row, output column) where a box begins."""
        _, rows, columns = self._boxes
        return (
            box // (rows * columns) * self.depth,
            box // columns % rows * self.height,
            box % columns * self.width,
        )

    def origin(self, box: Any) -> tuple[Any, Any, Any]:
        """(image, image row, image column) of the first halo pixel of a box; may lie outside."""
        image, p, q = self.first_pixel(box)
        return (image, *halo_origin(self.conv, p, q))

    def pixel(self, box: Any, row: Any) -> tuple[Any, Any, Any]:
        """(image, output row, output column) of a row of a box's tile; may lie outside."""
        image, p, q = self.first_pixel(box)
        fragment, lane = row // LANES, row % LANES
        p += fragment // self.columns
        q += fragment % self.columns
        return (image + lane, p, q) if self.images else (image, p, q + lane * self.columns)
