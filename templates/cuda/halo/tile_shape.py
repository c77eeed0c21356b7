"""The shape of an output tile, and what every tile of a shape has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from autoq.templates.arrays.element import element
from autoq.templates.operators.conv2d import Conv2d


@dataclass(frozen=True, order=True)
class TileShape:
    """Output pixels of a tile.

    flat: whole rows of the halo are computed, not eight columns at a time.
    """

    flat: bool
    images: int
    height: int
    width: int


@dataclass(frozen=True)
class ShapedTile:
    """Output pixels of a shape, whose activations lie in shared-memory rows of `row_bytes`.

    Subclasses have load_bytes, the bytes of one load: a chunk of the reduction.
    """

    if TYPE_CHECKING:
        load_bytes: int

    workload: Conv2d
    shape: TileShape
    row_bytes: int

    @cached_property
    def row_channels(self) -> int:
        """Channels of a shared-memory row."""
        return self.row_bytes // element(self.workload.in_dtype).bytes

    @cached_property
    def slot_bytes(self) -> int:
        """Bytes between slots, whole 1024-byte swizzle patterns."""
        return -(-self.load_bytes // 1024) * 1024
