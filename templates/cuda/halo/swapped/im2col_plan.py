"""Layout and plan of conv2d_swapped_im2col: conv2d_swapped's kernel over im2col loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import (
    ENCODE_IM2COL,
    LOAD_IM2COL_4D,
    Delivery,
    im2col_map,
    tiled_map,
    tma_load,
)
from autoq.templates.cuda.halo.swapped.im2col_tile import Im2colTile
from autoq.templates.cuda.halo.swapped.plan import SwappedPlan
from autoq.templates.cuda.halo.swapped.tiling import SwappedTiling
from autoq.templates.cuda.halo.tile import BLOCK_ROWS


@dataclass(frozen=True)
class SwappedIm2colTiling(SwappedTiling):
    """One configuration of one workload; `config.tile` is a flat row of columns."""

    tile_type = Im2colTile


class SwappedIm2colPlan(SwappedPlan):
    """The plan of conv2d_swapped_im2col."""

    x_encode = ENCODE_IM2COL
    x_rank = 4
    y_rank = 2

    def x_arguments(self) -> list[int]:
        """Tensor map of the activations: a box is one tap of consecutive output pixels."""
        work, tile = self.workload, self.tile
        return im2col_map(
            work.inputs[0], (work.r, work.s), work.stride, work.padding, work.dilation,
            tile.row_channels, tile.columns, swizzle_mode(tile.row_bytes),
        )  # fmt: skip

    def fetch(self, smem: Any, x_map: Any, m: Any, chunk: Any, barrier: Any) -> Any:
        """The call that loads a chunk of tile m's activations; wrap it in T.evaluate."""
        work, tile = self.workload, self.tile
        first = m * tile.columns
        tap = chunk // tile.chunks_of_a_tap
        return tma_load(
            LOAD_IM2COL_4D,
            Delivery(once=self.config.input_once),
            smem,
            x_map,
            chunk % tile.chunks_of_a_tap * tile.row_channels,
            first % work.q * work.stride[1] - work.padding[1],
            first // work.q % work.p * work.stride[0] - work.padding[0],
            first // (work.p * work.q),
            barrier,
            T.cast(tap % work.s * work.dilation[1], "uint16"),
            T.cast(tap // work.s * work.dilation[0], "uint16"),
        )

    def y_arguments(self) -> list[int]:
        """Tensor map of the output [pixels, k]: one box is 64 channels of a tile."""
        k, dtype = self.workload.k, self.workload.epilogue.out_dtype
        box = [BLOCK_ROWS, self.tile.columns]
        return tiled_map(dtype, [k, self.tile.pixels], [k], box, swizzle_mode(BLOCK_ROWS))

    def y_coordinates(self, m: Any, first: Any) -> tuple[Any, ...]:
        """Coordinates of 64 channels of tile m."""
        return first, m * self.tile.columns

    def output_pixel(self, m: Any, column: Any) -> tuple[Any, Any]:
        """Output row and column of a column of tile m."""
        index = m * self.tile.columns + column
        return index // self.workload.q % self.workload.p, index % self.workload.q
