"""Template gemm_swapped: products of few rows, the weight as wgmma's A and rows of x as its B.

A tile of 64 rows of x, the least that `gemm_wgmma` has, is mostly padding where there are few of
them. Here 64 weight rows are a tile's height, and its width are 16 rows of x or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.wgmma_workloads import supports_sums
from autoq.templates.cuda.halo.swapped import conv2d_swapped_im2col as im2col
from autoq.templates.cuda.halo.swapped.gemm_plan import (
    DirectGemmPlan,
    DirectTiling,
    SwappedGemmPlan,
)
from autoq.templates.cuda.halo.swapped.im2col_plan import SwappedIm2colTiling
from autoq.templates.cuda.halo.swapped.tile import COLUMNS
from autoq.templates.cuda.halo.swapped.tiling import SwappedConvConfig
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

_MOST_ROWS = COLUMNS[-1]
"""With more, the weight is read again for each tile, and gemm_wgmma's tiles are full."""


def matches(workload: Workload, target: Target) -> bool:
    """Gemm of at most 256 rows, scales by column or row.

    k and n are multiples of 16, and whole rows of at least 32 values of k waste at most a third.
    Outputs and residuals have 8 bits or more.
    """
    if not isinstance(workload, Gemm) or workload.m > _MOST_ROWS:
        return False
    epilogue = workload.epilogue
    narrow = is_four_bit(epilogue.out_dtype) or is_four_bit(epilogue.residual_dtype)
    return (
        not narrow
        and epilogue.scale_group == 0
        and not epilogue.factor
        and supports_sums(workload.as_conv2d(), target)
        and workload.n % 16 == 0
        and bool(im2col.whole_row_sizes(workload.as_conv2d()))
    )


def _staged(workload: Gemm) -> bool:
    """Whether outputs pass through shared memory: bytes that nothing else is read for."""
    epilogue = workload.epilogue
    plain = epilogue.of_convolutions and epilogue.residual_dtype is None
    return plain and epilogue.out_dtype in ("int8", "uint8")


def _tiling(workload: Gemm) -> im2col.TilingOf:
    return SwappedIm2colTiling if _staged(workload) else DirectTiling


def _shapes(workload: Gemm) -> tuple[TileShape, ...]:
    """Tiles up to the least that holds all rows."""
    return tuple(TileShape(True, 1, 1, n) for n in COLUMNS if n < workload.m + 16)


def space(workload: Gemm, target: Target) -> Space[SwappedConvConfig]:
    """Legal configurations; `halo_space.common_rules` has their rules."""
    tiling, buffers = _tiling(workload), (1, 2) if _staged(workload) else (1,)
    return im2col.space_of(workload.as_conv2d(), _shapes(workload), target, tiling, buffers)


def default(workload: Gemm, target: Target) -> SwappedConvConfig:
    """The candidate with the fewest estimated cycles; ConfigError when nothing is legal."""
    conv, shapes = workload.as_conv2d(), _shapes(workload)
    return im2col.default_of(conv, shapes, target, _tiling(workload))


def build(workload: Gemm, config: SwappedConvConfig, target: Target) -> PrimFunc:
    """PrimFunc over x, the arrays of `pack`, y."""
    from autoq.templates.cuda.halo.kernel import build_halo_kernel

    tiling = _tiling(workload)(workload.as_conv2d(), config, target.units)
    plan = SwappedGemmPlan if _staged(workload) else DirectGemmPlan
    return build_halo_kernel(plan(tiling))


def pack(workload: Gemm, config: SwappedConvConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """As `conv2d_swapped_im2col.pack` of filters [n, 1, 1, k]."""
    conv = workload.as_conv2d()
    weight = np.asarray(constants["weight"]).reshape(conv.weight_shape)
    return im2col.pack(conv, config, {**constants, "weight": weight})


def packed(workload: Gemm, config: SwappedConvConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return im2col.packed(workload.as_conv2d(), config)


TEMPLATE = Template("gemm_swapped", 1, matches, space, default, build, pack, packed, preference=45)
