"""Tiles of images that lie in shared memory with their border, so that all taps read them there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.templates.cuda.device.launch.mapped import Mapped
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import ENCODE_TILED, MAX_BOX, nhwc_strides, tiled_map
from autoq.templates.cuda.pruned.picked.steps import WORD_BYTES
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_conv2d import FloatConv2d

TILE_W = 16
"""Pixels of y of a row of a tile: those that a warp has of an instruction."""
_MOST = 256
"""Places of taps, and words of a pixel, that a byte tells."""
_ALIGNMENT = 1024


@dataclass(frozen=True)
class Bordered:
    """Tiles of `rows` pixels of y of a convolution of stride 1, of values of `size` bytes.

    row_bytes: of a pixel's channels in a panel of shared memory, which a swizzle holds.
    """

    conv: Conv2d | FloatConv2d
    size: int
    row_bytes: int
    rows: int

    @property
    def height(self) -> int:
        """Rows of a tile's pixels of y."""
        return self.rows // TILE_W

    @property
    def wide(self) -> int:
        """Pixels of x of a row, an even number, so that four rows on swizzles are the same."""
        return -(-(TILE_W + self.conv.s - 1) // 2) * 2

    @property
    def high(self) -> int:
        """Rows of pixels of x."""
        return self.height + self.conv.r - 1

    @property
    def box_bytes(self) -> int:
        """Bytes of a panel, which is a box of x."""
        return self.wide * self.high * self.row_bytes

    @property
    def panel_bytes(self) -> int:
        return -(-self.box_bytes // _ALIGNMENT) * _ALIGNMENT

    @property
    def panels(self) -> int:
        return -(-self.conv.c * self.size // self.row_bytes)

    @property
    def across(self) -> int:
        """Tiles beside each other."""
        return -(-self.conv.q // TILE_W)

    @property
    def down(self) -> int:
        return -(-self.conv.p // self.height)

    @property
    def count(self) -> int:
        """Tiles of all images."""
        return self.conv.n * self.across * self.down

    @property
    def possible(self) -> bool:
        """Whether all taps are of neighbouring pixels, and boxes and places have room."""
        conv = self.conv
        plain = conv.stride == conv.dilation == (1, 1) and conv.r * conv.s > 1
        return (
            plain and max(self.wide, self.high) <= MAX_BOX and self.rows % TILE_W == 0
            and (conv.r - 1) * self.wide + conv.s <= _MOST
            and conv.c * self.size // WORD_BYTES <= _MOST
        )  # fmt: skip

    def mapped(self) -> Mapped:
        """x with its map in boxes of a tile's pixels; what lies outside of an image is 0."""
        conv, x = self.conv, self.conv.inputs[0]
        dims = [conv.c, conv.w, conv.h, conv.n]
        box = [self.row_bytes // self.size, self.wide, self.high, 1]
        strides, swizzle = nhwc_strides(conv.h, conv.w, conv.c), swizzle_mode(self.row_bytes)
        return Mapped(x, ENCODE_TILED, 4, tiled_map(x.dtype, dims, strides, box, swizzle))

    def places(self, words: np.ndarray) -> np.ndarray:
        """16 bits for each word of r * s * c values: how many pixels on, and which of a pixel."""
        tap, word = np.divmod(words, self.conv.c * self.size // WORD_BYTES)
        row, column = np.divmod(tap, self.conv.s)
        return (row * self.wide + column | word << 8).astype(np.uint32)
