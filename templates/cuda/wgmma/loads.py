"""Ways to bring rows of the implicit activation matrix [pixels, taps * channels] to shared memory.

Each has the tensor map, the instruction that fetches a sub-tile of a filter tap, and the output
pixel that a row of a tile computes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import (
    ENCODE_IM2COL,
    ENCODE_TILED,
    LOAD_IM2COL_4D,
    Delivery,
    im2col_map,
    load_tiled,
    nhwc_strides,
    tiled_map,
    tma_load,
)
from autoq.templates.cuda.device.pixel import Pixel
from autoq.templates.cuda.device.weights import KLayout, ceil_div
from autoq.templates.operators.conv2d import Conv2d


class Load(Protocol):
    """One way to load activations; `rows` of a sub-tile are filled, at most block_m."""

    encode: str
    rank: int
    m_tiles: int
    rows: int
    wasted: float
    """Rows computed for each row that exists."""

    def map_arguments(self) -> list[int]: ...

    def fetch(
        self, smem: Any, tensor_map: Any, m: Any, sub_tile: Any, barrier: Any, to: Delivery
    ) -> Any:
        """The call that loads a sub-tile of tile m; wrap it in T.evaluate."""
        ...

    def pixel(self, m: Any, row: Any) -> Pixel: ...


def _tap(layout: KLayout, sub_tile: Any, s: int) -> tuple[Any, Any, Any]:
    """Filter row, filter column and first channel of a sub-tile (past the last tap: the last)."""
    tap = sub_tile // layout.chunks
    if layout.stages * layout.per_stage != layout.used:
        tap = T.min(tap, layout.taps - 1)
    return tap // s, tap % s, sub_tile % layout.chunks * layout.row_channels


def _inside(index: Any, count: int, rows: int) -> Any:
    """Whether a row of a tile is one of `count`, known beforehand where tiles divide them."""
    return T.bool(True) if count % rows == 0 else index < count


class _RowsLoad:
    """Loads of tiles of `block_m` consecutive output pixels."""

    def __init__(self, workload: Conv2d, layout: KLayout, block_m: int) -> None:
        self.workload, self.layout, self.rows = workload, layout, block_m
        self.m = workload.n * workload.p * workload.q
        self.m_tiles = ceil_div(self.m, block_m)
        self.wasted = self.m_tiles * block_m / self.m


class MatrixLoad(_RowsLoad):
    """Rows of a matrix [m, c]: GEMM, and 1x1 convolutions of stride 1 without padding."""

    encode = ENCODE_TILED
    rank = 2

    def map_arguments(self) -> list[int]:
        c, layout = self.workload.c, self.layout
        box = [layout.row_channels, self.rows]
        return tiled_map(layout.dtype, [c, self.m], [c], box, swizzle_mode(layout.row_bytes))

    def fetch(
        self, smem: Any, tensor_map: Any, m: Any, sub_tile: Any, barrier: Any, to: Delivery
    ) -> Any:
        column = sub_tile * self.layout.row_channels
        return tma_load(load_tiled(2), to, smem, tensor_map, column, m * self.rows, barrier)

    def pixel(self, m: Any, row: Any) -> Pixel:
        index = m * self.rows + row
        return Pixel(index, _inside(index, self.m, self.rows), 0, 0)


class Im2colLoad(_RowsLoad):
    """Consecutive output pixels, whatever their image or row, by TMA's im2col mode."""

    encode = ENCODE_IM2COL
    rank = 4

    def map_arguments(self) -> list[int]:
        work, layout = self.workload, self.layout
        return im2col_map(
            work.inputs[0], (work.r, work.s), work.stride, work.padding, work.dilation,
            layout.row_channels, self.rows, swizzle_mode(layout.row_bytes),
        )  # fmt: skip

    def fetch(
        self, smem: Any, tensor_map: Any, m: Any, sub_tile: Any, barrier: Any, to: Delivery
    ) -> Any:
        work = self.workload
        first = m * self.rows
        r, s, channel = _tap(self.layout, sub_tile, work.s)
        return tma_load(
            LOAD_IM2COL_4D,
            to,
            smem,
            tensor_map,
            channel,
            first % work.q * work.stride[1] - work.padding[1],
            first // work.q % work.p * work.stride[0] - work.padding[0],
            first // (work.p * work.q),
            barrier,
            T.cast(s * work.dilation[1], "uint16"),
            T.cast(r * work.dilation[0], "uint16"),
        )

    def pixel(self, m: Any, row: Any) -> Pixel:
        index = m * self.rows + row
        return Pixel(
            index, _inside(index, self.m, self.rows), index // self.workload.q % self.workload.p,
            index % self.workload.q,
        )  # fmt: skip


@dataclass(frozen=True, order=True)
class PixelBox:
    """A box of output pixels."""

    images: int
    rows: int
    columns: int

    @property
    def pixels(self) -> int:
        """How many it has."""
        return self.images * self.rows * self.columns

    def counts(self, workload: Conv2d) -> tuple[int, int, int]:
        """Boxes along the images, rows and columns of the output."""
        return (
            ceil_div(workload.n, self.images),
            ceil_div(workload.p, self.rows),
            ceil_div(workload.q, self.columns),
        )


class TapLoad:
    """Boxes of output pixels, one TMA box for each filter tap."""

    encode = ENCODE_TILED
    rank = 4

    def __init__(self, workload: Conv2d, layout: KLayout, block_m: int, tile: PixelBox) -> None:
        self.workload, self.layout, self.block_m, self.tile = workload, layout, block_m, tile
        self.rows = tile.pixels
        self.counts = tile.counts(workload)
        self.m_tiles = math.prod(self.counts)
        self.wasted = self.m_tiles * block_m / (workload.n * workload.p * workload.q)

    def map_arguments(self) -> list[int]:
        work, layout = self.workload, self.layout
        images, rows, columns = self.tile.images, self.tile.rows, self.tile.columns
        n, h, w, c = work.x_shape
        box = [layout.row_channels, columns * work.stride[1], rows * work.stride[0], images]
        return tiled_map(
            layout.dtype, [c, w, h, n], nhwc_strides(h, w, c), box, swizzle_mode(layout.row_bytes),
            [1, work.stride[1], work.stride[0], 1],
        )  # fmt: skip

    def _origin(self, m: Any) -> tuple[Any, Any, Any]:
        _, rows, columns = self.counts
        return (
            m // (rows * columns) * self.tile.images,
            m // columns % rows * self.tile.rows,
            m % columns * self.tile.columns,
        )

    def fetch(
        self, smem: Any, tensor_map: Any, m: Any, sub_tile: Any, barrier: Any, to: Delivery
    ) -> Any:
        work = self.workload
        image, p, q = self._origin(m)
        r, s, channel = _tap(self.layout, sub_tile, work.s)
        return tma_load(
            load_tiled(4),
            to,
            smem,
            tensor_map,
            channel,
            q * work.stride[1] + s * work.dilation[1] - work.padding[1],
            p * work.stride[0] + r * work.dilation[0] - work.padding[0],
            image,
            barrier,
        )

    def pixel(self, m: Any, row: Any) -> Pixel:
        work = self.workload
        rows, columns = self.tile.rows, self.tile.columns
        image, p, q = self._origin(m)
        image += row // (rows * columns)
        p += row // columns % rows
        q += row % columns
        exists = T.And(T.And(image < work.n, p < work.p), q < work.q)
        if self.rows != self.block_m:
            exists = T.And(exists, row < self.rows)
        return Pixel((image * work.p + p) * work.q + q, exists, p, q)
