"""The sums of products of a convolution in numpy: exact for integers, a tile of the output at once.

Float32 holds every integer up to 2**24, so a BLAS product of integers none of whose sums can be
larger is exact in whatever order it adds: at least 512 products of bytes. Longer sums are cut into
such blocks, which are added as int32. Float64 would be exact as well, and takes twice as long.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from autoq.templates.operators.conv2d import Conv2d

_EXACT = 1 << 24

# Operations of a tile: some milliseconds of a core, large enough to hide Python.
_TILE_OPERATIONS = 1 << 28
# Pixels and channels of a tile: large enough for BLAS, and few enough for a core's cache.
_TILE_PIXELS = 1024
_TILE_CHANNELS = 1024
# Products that are summed at a time, where exactness allows as many.
_BLOCK = 1024
# Sums of a tile, and values that it gathers: a thread holds at most some 64 MiB of integers.
_TILE_SUMS = 1 << 20
_TILE_VALUES = 1 << 23
# Sums of a tile of filters of one channel, which is bound by the cache rather than by arithmetic.
_DEPTHWISE_SUMS = 1 << 17


@dataclass(frozen=True)
class Tile:
    """A box of the output, `[images, rows, columns, channels]`: whole groups, or a part of one."""

    images: slice
    rows: slice
    columns: slice
    channels: slice

    @property
    def box(self) -> tuple[slice, slice, slice, slice]:
        """What indexes an NHWC array of the output's shape."""
        return self.images, self.rows, self.columns, self.channels

    @property
    def shape(self) -> tuple[int, int, int, int]:
        n, p, q, k = (int(axis.stop - axis.start) for axis in self.box)
        return n, p, q, k


class ConvolutionSums:
    """Sums of `(x - zero_point) * weight` over the filters' taps and channels.

    x is [n, h, w, c] and weight [k, r, s, c / groups]; outside the image is zero_point. Integers
    are summed as int32, which wraps around as a kernel's sums do; float32 as float64, rounded once.
    """

    def __init__(self, conv: Conv2d, x: np.ndarray, weight: np.ndarray, zero_point: int) -> None:
        self._conv = conv
        self._x = x
        self._integer = conv.in_dtype != "float32"
        self._zero_point = zero_point if self._integer else 0
        self._filters = conv.k // conv.groups
        self._weight = weight.reshape(conv.groups, self._filters, -1)
        self._depthwise = conv.groups == conv.c == conv.k
        self._block = _BLOCK
        if self._integer:
            product = _largest(x, self._zero_point) * _largest(weight, 0)
            self._block = max(1, min(_BLOCK, _EXACT // max(1, product)))

    def tiles(self, threads: int) -> list[Tile]:
        """Boxes that together are the output, at least two a thread where they are worth it."""
        conv = self._conv
        channels = [
            slice(
                some.start * self._filters + part.start, (some.stop - 1) * self._filters + part.stop
            )
            for some in _cut(conv.groups, max(1, _TILE_CHANNELS // self._filters))
            for part in _cut(self._filters, _TILE_CHANNELS)
        ]
        pixels = self._tile_pixels(channels[0].stop, 2 * threads // len(channels))
        columns = min(conv.q, pixels)
        rows = min(conv.p, max(1, pixels // columns))
        images = min(conv.n, max(1, pixels // (columns * rows)))
        box = (_cut(conv.n, images), _cut(conv.p, rows), _cut(conv.q, columns), channels)
        return [Tile(*slices) for slices in itertools.product(*box)]

    def _tile_pixels(self, channels: int, wanted: int) -> int:
        """Pixels of a tile of so many channels, when at least `wanted` tiles are to be had."""
        conv, depth = self._conv, self._weight.shape[-1]
        if self._depthwise:
            return max(1, _DEPTHWISE_SUMS // channels)
        gathered = depth * -(-channels // self._filters)
        most = min(_TILE_SUMS // channels, _TILE_VALUES // gathered)
        worth = _TILE_OPERATIONS // (2 * depth * channels)
        shared = conv.n * conv.p * conv.q // max(1, wanted)
        return max(1, min(most, max(worth, min(_TILE_PIXELS, shared))))

    def of(self, tile: Tile) -> np.ndarray:
        """The sums of a tile, int32 or float32 [n, p, q, channels]."""
        sums = self._of_single_channels(tile) if self._depthwise else self._of_products(tile)
        return sums if self._integer else sums.astype(np.float32)

    def _of_products(self, tile: Tile) -> np.ndarray:
        first, size = tile.channels.start, tile.shape[-1]
        groups = slice(first // self._filters, -(-tile.channels.stop // self._filters))
        filters = slice(first % self._filters, first % self._filters + min(size, self._filters))
        weight = self._weight[groups, filters]
        columns = self._columns(tile, groups)
        dtype = np.float32 if self._integer else np.float64
        total: np.ndarray | None = None
        for part in _cut(weight.shape[-1], self._block):
            values = columns[..., part].astype(dtype)
            if self._zero_point:
                values -= self._zero_point
            taps = weight[..., part].astype(dtype).transpose(0, 2, 1)
            sums = np.matmul(values, taps)
            sums = sums.astype(np.int32) if self._integer else sums
            total = sums if total is None else np.add(total, sums, out=total)
        assert total is not None
        return total.transpose(1, 0, 2).reshape(tile.shape)

    def _columns(self, tile: Tile, groups: slice) -> np.ndarray:
        """What each pixel's filter meets, [groups, pixels, r * s * c / groups]."""
        conv = self._conv
        depth = conv.c // conv.groups
        channels = slice(groups.start * depth, groups.stop * depth)
        taps = self._taps(self._image(tile, channels), tile)
        # [n, p, q, r, s, groups, channels] to [n, p, q, groups, r, s, channels]
        taps = taps.reshape(*taps.shape[:-1], -1, depth).transpose(0, 1, 2, 5, 3, 4, 6)
        return taps.reshape(-1, groups.stop - groups.start, self._weight.shape[-1]).transpose(
            1, 0, 2
        )

    def _of_single_channels(self, tile: Tile) -> np.ndarray:
        conv = self._conv
        dtype = np.int32 if self._integer else np.float64
        image = self._image(tile, tile.channels).astype(dtype)
        if self._zero_point:
            image -= self._zero_point
        taps = self._taps(image, tile)
        weight = self._weight[tile.channels].astype(dtype).reshape(-1, conv.r, conv.s)
        total = np.zeros(tile.shape, dtype)
        product = np.empty_like(total)
        for row in range(conv.r):
            for column in range(conv.s):
                np.multiply(taps[:, :, :, row, column], weight[:, row, column], out=product)
                total += product
        return total

    def _image(self, tile: Tile, channels: slice) -> np.ndarray:
        """The part of x that a tile reads, with the zero point outside the image."""
        conv = self._conv
        rows, row_place, row_count = _reach(
            tile.rows, conv.stride[0], conv.dilation[0] * (conv.r - 1) + 1, conv.padding[0], conv.h
        )
        columns, column_place, column_count = _reach(
            tile.columns,
            conv.stride[1],
            conv.dilation[1] * (conv.s - 1) + 1,
            conv.padding[1],
            conv.w,
        )
        inside = self._x[tile.images, rows, columns, channels]
        n, h, w, c = inside.shape
        if (h, w) == (row_count, column_count):
            return inside
        image = np.full((n, row_count, column_count, c), self._zero_point, inside.dtype)
        image[:, row_place, column_place] = inside
        return image

    def _taps(self, image: np.ndarray, tile: Tile) -> np.ndarray:
        """A view [n, p, q, r, s, c] of a tile's part of x: what each tap of each pixel meets."""
        conv = self._conv
        n, h, w, c = image.strides
        strides = (
            n, h * conv.stride[0], w * conv.stride[1], h * conv.dilation[0], w * conv.dilation[1], c
        )  # fmt: skip
        shape = (*tile.shape[:3], conv.r, conv.s, image.shape[-1])
        return np.lib.stride_tricks.as_strided(image, shape, strides, writeable=False)


def _reach(
    out: slice, stride: int, reach: int, before: int, extent: int
) -> tuple[slice, slice, int]:
    """What places `out` of an axis of the output read of x's axis, extended by its padding.

    Gives the places that exist, where they lie among those read, and how many are read.
    """
    first = out.start * stride - before
    count = (out.stop - 1 - out.start) * stride + reach
    start, stop = max(first, 0), min(first + count, extent)
    if stop <= start:
        return slice(0, 0), slice(0, 0), count
    return slice(start, stop), slice(start - first, stop - first), count


def _largest(values: np.ndarray, zero_point: int) -> int:
    """The largest distance of an integer from the zero point."""
    return max(abs(int(values.max()) - zero_point), abs(int(values.min()) - zero_point))


def _cut(extent: int, most: int) -> list[slice]:
    """Slices of about equal length over an axis, none longer than `most`."""
    step = -(-extent // -(-extent // most))
    return [slice(start, min(start + step, extent)) for start in range(0, extent, step)]
