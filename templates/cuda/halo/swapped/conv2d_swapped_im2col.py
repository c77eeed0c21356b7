"""Template conv2d_swapped_im2col: weights as wgmma's A, im2col loads of pixels as its B.

Every tap is fetched again, but tiles waste no pixel at image and row ends, and the wide B reads
less shared memory for a multiplication than conv2d_im2col's pixels as A. Any stride and dilation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.memory.swizzle import shared_image
from autoq.templates.cuda.device.wgmma_workloads import supports_im2col
from autoq.templates.cuda.halo.config import ResidentWeights, WeightRing
from autoq.templates.cuda.halo.cost import features
from autoq.templates.cuda.halo.default import TRIED_TEAMS, candidates, fastest
from autoq.templates.cuda.halo.space import PARTS, STAGES, Rule, common_rules, ring_knobs, row_sizes
from autoq.templates.cuda.halo.swapped.conv2d_swapped import order_rows, pack_channels
from autoq.templates.cuda.halo.swapped.im2col_tile import Im2colTile
from autoq.templates.cuda.halo.swapped.space import channel_tiles
from autoq.templates.cuda.halo.swapped.tile import COLUMNS
from autoq.templates.cuda.halo.swapped.tiling import SwappedConvConfig
from autoq.templates.cuda.halo.tile_shape import TileShape
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target
from autoq.templates.workload import Constants

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

    from autoq.templates.cuda.halo.swapped.im2col_plan import SwappedIm2colTiling

TilingOf = Callable[[Conv2d, SwappedConvConfig, int], "SwappedIm2colTiling"]
"""Makes the tiling of a configuration on a GPU of so many multiprocessors."""

_SHAPES = tuple(TileShape(True, 1, 1, width) for width in COLUMNS if width >= 64)
"""Narrower tiles read more shared memory than the tensor core's time allows."""


def matches(workload: object, target: Target) -> bool:
    """Dense convolutions that im2col can express, with 8-bit outputs.

    c and k are multiples of 16, and whole rows of at least 32 channels waste at most a third; a
    residual is left to conv2d_im2col.
    """
    return (
        isinstance(workload, Conv2d)
        and workload.epilogue.out_dtype in ("int8", "uint8")
        and workload.epilogue.residual_dtype is None
        and supports_im2col(workload, target)
        and workload.k % 16 == 0
        and bool(whole_row_sizes(workload))
    )


def whole_row_sizes(workload: Conv2d) -> tuple[int, ...]:
    return tuple(size for size in row_sizes(workload) if size >= 32)


def _tiling(workload: Conv2d, config: SwappedConvConfig, units: int) -> SwappedIm2colTiling:
    from autoq.templates.cuda.halo.swapped.im2col_plan import SwappedIm2colTiling

    return SwappedIm2colTiling(workload, config, units)


def _constraints(workload: Conv2d, target: Target, tiling: TilingOf) -> tuple[Rule, ...]:
    @functools.lru_cache(maxsize=16)
    def tiling_of(config: SwappedConvConfig) -> SwappedIm2colTiling:
        return tiling(workload, config, target.units)

    def borders_are_of_one_block(config: SwappedConvConfig) -> bool:
        """Sums of borders leave pairs of blocks too few registers: ptxas spills up to 92 bytes."""
        return config.cluster == 1 or not workload.zero_point_border

    return *common_rules(tiling_of, target), borders_are_of_one_block


def space(workload: Conv2d, target: Target) -> Space[SwappedConvConfig]:
    """Legal configurations; `halo_space.common_rules` has their rules."""
    return space_of(workload, _SHAPES, target, _tiling)


def space_of(
    workload: Conv2d,
    shapes: tuple[TileShape, ...],
    target: Target,
    tiling: TilingOf,
    store_stages: tuple[int, ...] = (1, 2),
) -> Space[SwappedConvConfig]:
    """The same of tiles of these shapes, flat rows of pixels, and of another tiling."""
    knobs = {
        **ring_knobs(workload),
        "row_bytes": whole_row_sizes(workload),
        "weights": (ResidentWeights(), *PARTS, *(WeightRing(stages, 1) for stages in STAGES)),
        "tile": shapes,
        "block_n": channel_tiles(workload),
        "store_stages": store_stages,
    }
    return Space(
        SwappedConvConfig,
        knobs,
        _constraints(workload, target, tiling),
        lambda config: features(tiling(workload, config, target.units)),
    )


def default(workload: Conv2d, target: Target) -> SwappedConvConfig:
    """The candidate with the fewest estimated cycles; ConfigError when nothing is legal."""
    return default_of(workload, _SHAPES, target, _tiling)


@functools.lru_cache(maxsize=256)
def default_of(
    workload: Conv2d, shapes: tuple[TileShape, ...], target: Target, tiling: TilingOf
) -> SwappedConvConfig:
    """The same of tiles of these shapes."""
    tiles = [
        Im2colTile(workload, shape, row_bytes)
        for row_bytes in whole_row_sizes(workload)[-1:]
        for shape in shapes
    ]
    found = candidates(
        lambda config: tiling(workload, config, target.units),
        functools.partial(SwappedConvConfig, store_stages=1),
        tiles,
        channel_tiles(workload),
        TRIED_TEAMS,
        _constraints(workload, target, tiling),
        target.smem_bytes,
    )
    return fastest(found, workload)


def build(workload: Conv2d, config: SwappedConvConfig, target: Target) -> PrimFunc:
    """PrimFunc over x, the arrays of `pack`, y."""
    from autoq.templates.cuda.halo.kernel import build_halo_kernel
    from autoq.templates.cuda.halo.swapped.im2col_plan import SwappedIm2colPlan

    return build_halo_kernel(SwappedIm2colPlan(_tiling(workload, config, target.units)))


def pack_weight(weight: np.ndarray, tile: Im2colTile, block_n: int) -> np.ndarray:
    """Weights int8 [k, r, s, c] as int8 [k padded to block_n x chunks, row_bytes].

    The order is `conv2d_swapped.order_rows`; channels past c are zero.
    """
    k, r, s, c = weight.shape
    channels = tile.chunks_of_a_tap * tile.row_channels
    padded = np.zeros((-(-k // block_n) * block_n, r, s, channels), weight.dtype)
    padded[:k, :, :, :c] = weight
    return order_rows(padded.reshape(len(padded), -1), block_n, tile.row_bytes)


def pack(
    workload: Conv2d, config: SwappedConvConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """weight int8 [k' * reduction], bias int32 [classes * k'], scale float32 [k'],
    scalars [8]; k' is k padded to block_n, classes are the border classes, row by row.
    """
    tile = Im2colTile(workload, config.tile, config.row_bytes)
    weight = pack_weight(np.asarray(constants["weight"]), tile, config.block_n)
    return shared_image(weight), *pack_channels(workload, config, constants)


def packed(workload: Conv2d, config: SwappedConvConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    from autoq.templates.cuda.halo.swapped.im2col_plan import SwappedIm2colTiling

    return SwappedIm2colTiling(workload, config, 1).constants


TEMPLATE = Template(
    "conv2d_swapped_im2col", 4, matches, space, default, build, pack, packed, preference=40
)
