"""Compile-time constants and device expressions of a conv2d_swapped kernel."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from autoq.templates.cuda.conv2d_swapped_layout import SwappedLayout
from autoq.templates.cuda.halo_plan import HaloPipelinePlan
from autoq.templates.cuda.halo_tile import BLOCK_ROWS
from autoq.templates.tiles.border_bias import bias_row
from autoq.templates.tiles.requantise import DeviceFunction, device_function, element_source
from autoq.templates.tiles.swizzle import swizzle_mode
from autoq.templates.tiles.tma import nhwc_strides, tiled_map
from autoq.templates.tiles.wgmma import K_BYTES, descriptor_step, wgmma

# a, b: columns 2t and 2t + 1 of the lower channel; c, d: of the upper one; left, right: bias of
# both channels in either column.
_REQUANTISE = r"""
__device__ __forceinline__ unsigned requantise_columns_@(
    unsigned a, unsigned b, unsigned c, unsigned d, const int* left, const int* right,
    float lower, float upper, float low, float high, float zero_point) {
  const int2 in_left = __ldg(reinterpret_cast<const int2*>(left));
  const int2 in_right = __ldg(reinterpret_cast<const int2*>(right));
  const float4 first = make_float4(0.f, 0.f, 0.f, 0.f);
  const float4 second = make_float4(0.f, low, high, zero_point);
  return quantise4_@(rescale_@((int)a + in_left.x, lower, 0.f, first, second),
                     rescale_@((int)c + in_left.y, upper, 0.f, first, second),
                     rescale_@((int)b + in_right.x, lower, 0.f, first, second),
                     rescale_@((int)d + in_right.y, upper, 0.f, first, second), second);
}
"""


class SwappedPlan(HaloPipelinePlan):
    """The plan of conv2d_swapped: D [64 channels a block, columns] in 8-bit outputs."""

    weight_rank = 2

    def __init__(self, layout: SwappedLayout) -> None:
        super().__init__(layout)
        self.column_groups = layout.tile.columns // 8
        source = element_source(self.workload.epilogue) + _REQUANTISE
        self.requantise: DeviceFunction = device_function("requantise_columns", source)

    def product(
        self, accumulator: Any, block: int, a: Any, b: Any, first_block: Any, step: Any, i: int,
        j: int, accumulate: Any,
    ) -> Any:  # fmt: skip
        """One wgmma: a step's weights of 64 channels, times the pixels shifted by a filter tap.

        a, b: descriptors of the halo slot and of the commit group's weights; i, j: step inside
        the group, instruction inside the step.
        """
        tile = self.tile
        rows = (first_block + block) * (BLOCK_ROWS * tile.step_bytes)
        return wgmma(
            accumulator,
            block * self.block_accumulators,
            self.layout.instruction_n,
            b + descriptor_step(rows + i * self.layout.weight_bytes + j * K_BYTES),
            a + descriptor_step(tile.tap_row(step) * tile.row_bytes + j * K_BYTES),
            accumulate,
            "int8",
            self.workload.in_dtype,
        )

    def weight_arguments(self) -> list[int]:
        """Tensor map of the packed weights: one box is a step's rows of a tile of channels."""
        tile = self.tile
        box = [tile.step_bytes, self.config.block_n]
        mode = swizzle_mode(tile.step_bytes)
        return tiled_map([tile.reduction, self.padded_n], [tile.reduction], box, mode)

    def weight_coordinates(self, n: Any) -> tuple[Any, ...]:
        """Coordinates of a tile of channels behind the column."""
        return (n * self.config.block_n,)

    def y_arguments(self) -> list[int]:
        """Tensor map of the output: one box is 64 channels of a tile, clipped at its edges."""
        n, p, q, k = self.workload.y_shape
        box = [BLOCK_ROWS, self.tile.store_width, self.tile.height, 1]
        mode = swizzle_mode(BLOCK_ROWS)
        return tiled_map([k, q, p, n], nhwc_strides(p, q, k), box, mode)

    def bias_offset(self, m: Any, column: Any) -> Any:
        """Offset of a column's border class in the flat bias table.

        Columns that compute no pixel read the class of the last one, so that they stay inside it.
        """
        if self.classes == 1:
            return 0
        _, p, q = self.origin(m)
        _, in_row, in_column = self.tile.pixel(0, column)
        p = T.min(p + in_row, self.workload.p - 1)
        q = T.min(q + in_column, self.workload.q - 1)
        return bias_row(self.rows, self.columns, p, q) * self.padded_n

    def staged(self, column: Any, warp: Any) -> Any:
        """Byte of a staging buffer where a warp's 16 channels of a column lie, swizzled."""
        return column * BLOCK_ROWS + (warp ^ (column // 2 % 4)) * 16
