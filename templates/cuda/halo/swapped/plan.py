"""Compile-time constants and device expressions of a conv2d_swapped kernel."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from autoq.templates.borders.row import bias_row
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import tiled_map
from autoq.templates.cuda.halo.plan import HaloPipelinePlan
from autoq.templates.cuda.halo.swapped.store import TransposedStore
from autoq.templates.cuda.halo.swapped.tiling import SwappedTiling
from autoq.templates.cuda.halo.tile import BLOCK_ROWS
from autoq.templates.epilogue.cuda.fragments.columns import column_functions


class SwappedPlan(HaloPipelinePlan):
    """The plan of conv2d_swapped: D [64 channels a block, columns] in 8-bit outputs."""

    weights_first = True
    store = TransposedStore

    def __init__(self, tiling: SwappedTiling) -> None:
        super().__init__(tiling)
        self.column_groups = tiling.tile.columns // 8
        self.functions = self.column_functions()

    def column_functions(self) -> Any:
        """What finishes columns of a thread."""
        return column_functions(self.workload.epilogue, self.classes > 1)

    def block_bytes(self, block: Any) -> Any:
        """Byte of a step's weights where a block of channels starts."""
        return block * (BLOCK_ROWS * self.tile.step_bytes)

    @property
    def whole_rows(self) -> bool:
        return self.tile.shape.images == 1 and super().whole_rows

    def x_arguments(self) -> list[int]:
        """Tensor map of the activations: one box is a chunk of a halo, images innermost."""
        tile = self.tile
        if tile.shape.images == 1:
            return super().x_arguments()
        n, h, w, c = self.workload.x_shape
        dtype, mode = self.workload.in_dtype, swizzle_mode(tile.row_bytes)
        box = [tile.row_channels, tile.shape.images, tile.halo_width, tile.halo_height]
        return tiled_map(dtype, [c, n, w, h], [h * w * c, c, w * c], box, mode)

    def x_coordinates(self, chunk: Any, image: Any, h: Any, w: Any) -> tuple[Any, ...]:
        """Coordinates of a chunk of the halo that starts at row h and column w."""
        if self.tile.shape.images == 1:
            return super().x_coordinates(chunk, image, h, w)
        return chunk * self.tile.row_channels, image, w, h

    y_rank = 4

    def y_arguments(self) -> list[int]:
        """Tensor map of the output: one box is 64 channels of a tile, clipped at its edges."""
        tile = self.tile
        n, p, q, k = self.workload.y_shape
        box = [BLOCK_ROWS, tile.shape.images, tile.store_width, tile.shape.height]
        strides = [p * q * k, k, q * k]
        dtype = self.workload.epilogue.out_dtype
        return tiled_map(dtype, [k, n, q, p], strides, box, swizzle_mode(BLOCK_ROWS))

    def y_coordinates(self, m: Any, first: Any) -> tuple[Any, ...]:
        """Coordinates of 64 channels of tile m."""
        image, p, q = self.origin(m)
        return first, image, q, p

    def bias_offset(self, m: Any, column: Any) -> Any:
        """Offset of a column's border class in the flat bias table.

        Columns that compute no pixel read the class of the last one, so that they stay inside it.
        """
        if self.classes == 1:
            return 0
        p, q = self.output_pixel(m, column)
        p, q = T.min(p, self.workload.p - 1), T.min(q, self.workload.q - 1)
        return bias_row(self.rows, self.columns, p, q) * self.padded_n

    def output_pixel(self, m: Any, column: Any) -> tuple[Any, Any]:
        """Output row and column of a column of tile m."""
        _, p, q = self.origin(m)
        _, in_row, in_column = self.tile.pixel(0, column)
        return p + in_row, q + in_column

    def first_channel(self, n: Any, block: Any) -> Any:
        """First output channel of a block of a tile."""
        return n * self.config.block_n + block * BLOCK_ROWS

    @staticmethod
    def row(warp: Any, lane: Any) -> Any:
        """The lower of a thread's two channels in a block."""
        return warp * 16 + lane // 4 * 2

    def staged(self, column: Any, warp: Any) -> Any:
        """Byte of a staging buffer where a warp's 16 channels of a column lie, swizzled."""
        return column * BLOCK_ROWS + (warp ^ (column // 2 % 4)) * 16
