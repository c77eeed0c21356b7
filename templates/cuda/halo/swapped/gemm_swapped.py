"""Template gemm_swapped: products of few rows, the weight as wgmma's A and rows of x as its B.

A tile of 64 rows of x, the least that `gemm_wgmma` has, is mostly padding where there are few of
them. Here 64 weight rows are a tile's height, and its width are 16 rows of x or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import (
    ENCODE_TILED,
    Delivery,
    load_tiled,
    tiled_map,
    tma_load,
)
from autoq.templates.cuda.device.wgmma_workloads import supported
from autoq.templates.cuda.halo.swapped import conv2d_swapped_im2col as im2col
from autoq.templates.cuda.halo.swapped.im2col_plan import SwappedIm2colPlan, SwappedIm2colTiling
from autoq.templates.cuda.halo.swapped.tile import COLUMNS
from autoq.templates.cuda.halo.swapped.tiling import SwappedConvConfig
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants, Workload

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

_MOST_ROWS = COLUMNS[-1]
"""With more, the weight is read again for each tile, and gemm_wgmma's tiles are full."""


class SwappedGemmPlan(SwappedIm2colPlan):
    """The plan of gemm_swapped: a chunk of the reduction is a box of x [rows, row_channels]."""

    x_encode = ENCODE_TILED
    x_rank = 2

    def x_arguments(self) -> list[int]:
        """Tensor map of x."""
        work, tile = self.workload, self.tile
        box = [tile.row_channels, tile.columns]
        mode = swizzle_mode(tile.row_bytes)
        return tiled_map(work.in_dtype, [work.c, work.n], [work.c], box, mode)

    def fetch(self, smem: Any, x_map: Any, m: Any, chunk: Any, barrier: Any) -> Any:
        """The call that loads a chunk of tile m's rows; wrap it in T.evaluate."""
        tile = self.tile
        return tma_load(
            load_tiled(2), Delivery(once=self.config.input_once), smem, x_map,
            chunk * tile.row_channels, m * tile.columns, barrier,
        )  # fmt: skip


def matches(workload: Workload, target: Target) -> bool:
    """Gemm of at most 256 rows with 8-bit outputs and no residual.

    k and n are multiples of 16, and whole rows of at least 32 values of k waste at most a third.
    """
    if not isinstance(workload, Gemm) or workload.m > _MOST_ROWS:
        return False
    return (
        workload.epilogue.out_dtype in ("int8", "uint8")
        and workload.epilogue.residual_dtype is None
        and supported(workload.as_conv2d(), target)
        and workload.n % 16 == 0
        and bool(im2col.whole_row_sizes(workload.as_conv2d()))
    )


def _shapes(workload: Gemm) -> tuple[TileShape, ...]:
    """Tiles up to the least that holds all rows."""
    return tuple(TileShape(True, 1, 1, n) for n in COLUMNS if n < workload.m + 16)


def space(workload: Gemm, target: Target) -> Space[SwappedConvConfig]:
    """Legal configurations; `halo_space.common_rules` has their rules."""
    return im2col.space_of(workload.as_conv2d(), _shapes(workload), target)


def default(workload: Gemm, target: Target) -> SwappedConvConfig:
    """The candidate with the fewest estimated cycles; ConfigError when nothing is legal."""
    return im2col.default_of(workload.as_conv2d(), _shapes(workload), target)


def build(workload: Gemm, config: SwappedConvConfig, target: Target) -> PrimFunc:
    """PrimFunc over x, the arrays of `pack`, y."""
    from autoq.templates.cuda.halo.kernel import build_halo_kernel

    tiling = SwappedIm2colTiling(workload.as_conv2d(), config, target.units)
    return build_halo_kernel(SwappedGemmPlan(tiling))


def pack(workload: Gemm, config: SwappedConvConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """As `conv2d_swapped_im2col.pack` of filters [n, 1, 1, k]."""
    conv = workload.as_conv2d()
    weight = np.asarray(constants["weight"]).reshape(conv.weight_shape)
    return im2col.pack(conv, config, {**constants, "weight": weight})


def packed(workload: Gemm, config: SwappedConvConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return im2col.packed(workload.as_conv2d(), config)


TEMPLATE = Template("gemm_swapped", 1, matches, space, default, build, pack, packed, preference=45)
