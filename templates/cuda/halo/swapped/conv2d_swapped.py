"""Template conv2d_swapped: the halo convolution with its operands swapped, for 8-bit outputs.

Weights are wgmma's first operand and up to 256 pixels of the halo its second, which reads less
shared memory for a multiplication than 64 pixels by few channels: 21.5 us instead of 27.5 for
128 x 56x56x64 -> 64 on an H200.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.borders.bias import border_bias
from autoq.templates.cuda.device.memory.swizzle import shared_image
from autoq.templates.cuda.device.weights import pad_channels, tile_rows
from autoq.templates.cuda.halo.conv2d_halo import pack_weight as pack_pixel_rows
from autoq.templates.cuda.halo.swapped.space import default_config, is_served, swapped_space
from autoq.templates.cuda.halo.swapped.tiling import SwappedConvConfig, SwappedTiling
from autoq.templates.cuda.halo.tile import HaloTile
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars, packed_scales
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target
from autoq.templates.workload import Constants

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


def matches(workload: object, target: Target) -> bool:
    """Stride-1 ungrouped convolutions of more than one tap, c and k multiples of 16, 8-bit output.

    TMA stores the output, hence k; a residual is left to conv2d_halo.
    """
    return (
        target.has_wgmma
        and isinstance(workload, Conv2d)
        and workload.in_dtype in ("int8", "uint8")
        and workload.weight_dtype in ("int4", "int8")
        and workload.epilogue.out_dtype in ("int8", "uint8")
        and workload.epilogue.residual_dtype is None
        and workload.epilogue.of_convolutions
        and workload.stride == (1, 1)
        and workload.groups == 1
        and workload.r * workload.s > 1
        and workload.c % 16 == 0
        and workload.k % 16 == 0
        and is_served(workload, target)
    )


def build(workload: Conv2d, config: SwappedConvConfig, target: Target) -> PrimFunc:
    """PrimFunc over x, the arrays of `pack`, y."""
    from autoq.templates.cuda.halo.kernel import build_halo_kernel
    from autoq.templates.cuda.halo.swapped.plan import SwappedPlan

    return build_halo_kernel(SwappedPlan(SwappedTiling(workload, config, target.units)))


def order_rows(packed: np.ndarray, block_n: int, step_bytes: int) -> np.ndarray:
    """Weights int8 [k', reduction] as int8 [k' * steps, step_bytes], rows as the kernel reads them.

    A step's rows of a tile of channels lie together. Row 16 w + 8 h + g of them holds channel
    16 w + 2 g + h: a thread's rows g and g + 8 of wgmma's fragments are then neighbouring channels.
    """
    row = np.arange(block_n)
    order = row // 16 * 16 + row % 8 * 2 + row % 16 // 8
    return tile_rows(packed, order, step_bytes)


def pack_weight(weight: np.ndarray, tile: HaloTile, block_n: int) -> np.ndarray:
    """Weights int8 [k, r, s, c] in the order of `order_rows`."""
    return order_rows(pack_pixel_rows(weight, tile, block_n), block_n, tile.step_bytes)


def pack_channels(
    workload: Conv2d, config: SwappedConvConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """bias int32 [classes * k'], scale float32 [k'], scalars float32 [8], as `pack` has them.

    Outputs of int32 have the bias alone; float biases [k'] follow the scales.
    """
    weight, bias = np.asarray(constants["weight"]), np.asarray(constants["bias"])
    bias = border_bias(workload, weight, bias, int(constants.get("x_zero_point", 0)))
    padded = pad_channels(bias, config.block_n).reshape(-1)
    if workload.epilogue.out_dtype == "int32":
        return (padded,)
    scales = packed_scales(
        workload.epilogue, constants, lambda values: pad_channels(values, config.block_n)
    )
    return padded, scales, packed_scalars(workload.epilogue, constants)


def pack(
    workload: Conv2d, config: SwappedConvConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """weight int8 [k' * reduction], bias int32 [classes * k'], scale, scalars.

    scale is float32 [k'], scalars float32 [8]; k' is k padded to block_n, classes are the border
    classes, row by row.
    """
    tile = SwappedTiling(workload, config, 1).tile
    weight = pack_weight(np.asarray(constants["weight"]), tile, config.block_n)
    return shared_image(weight), *pack_channels(workload, config, constants)


def packed(workload: Conv2d, config: SwappedConvConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return SwappedTiling(workload, config, 1).constants


TEMPLATE = Template(
    "conv2d_swapped", 6, matches, swapped_space, default_config, build, pack, packed, preference=80
)
