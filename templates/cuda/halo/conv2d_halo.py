"""Template conv2d_halo: stride-1 int8 convolution on Hopper that loads every input pixel once.

The halo of an output tile is loaded by one TMA box a chunk of channels (zero-filled outside the
image); the filter taps are shifted wgmma descriptors over it (`tile.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.borders.bias import border_bias
from autoq.templates.cuda.device.memory.swizzle import shared_image
from autoq.templates.cuda.device.weights import pad_channels, row_channels, tile_rows
from autoq.templates.cuda.halo.config import HaloConvConfig
from autoq.templates.cuda.halo.default import default_config
from autoq.templates.cuda.halo.space import halo_space, is_served
from autoq.templates.cuda.halo.tile import HaloTile
from autoq.templates.cuda.halo.tiling import HaloTiling
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import Target
from autoq.templates.workload import Constants

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


def matches(workload: object, target: Target) -> bool:
    """Stride-1 ungrouped convolutions of more than one tap over bytes, c a multiple of 16.

    Weights of 4 bits are unpacked when they are packed.
    """
    return (
        target.has_wgmma
        and isinstance(workload, Conv2d)
        and workload.in_dtype in ("int8", "uint8")
        and workload.weight_dtype in ("int4", "int8")
        and not workload.has_four_bit_activations
        and workload.epilogue.of_convolutions
        and workload.stride == (1, 1)
        and workload.groups == 1
        and workload.r * workload.s > 1
        and workload.c % 16 == 0
        and is_served(workload, target)
    )


def build(workload: Conv2d, config: HaloConvConfig, target: Target) -> PrimFunc:
    """PrimFunc over x, the residual, the arrays of `pack`, y."""
    from autoq.templates.cuda.halo.kernel import build_halo_kernel
    from autoq.templates.cuda.halo.plan import HaloPlan

    return build_halo_kernel(HaloPlan(HaloTiling(workload, config, target.units)))


def pack_weight(weight: np.ndarray, tile: HaloTile, block_n: int) -> np.ndarray:
    """Weights [k, r, s, c] as [k padded to block_n, values of chunks x steps x step_bytes].

    Channels past c and the second tap of an odd last pair are zero.
    """
    k, r, s, c = weight.shape
    taps = 2 if tile.pairs_taps else 1
    columns, chunks, channels = tile.steps_per_filter_row, tile.chunks, tile.row_channels
    shape = (-(-k // block_n) * block_n, r, columns * taps, chunks * channels)
    padded = np.zeros(shape, weight.dtype)
    padded[:k, :, :s, :c] = weight
    cut = padded.reshape(len(padded), r, columns, taps, chunks, channels)
    return np.ascontiguousarray(cut.transpose(0, 4, 1, 2, 3, 5)).reshape(len(padded), -1)


def pack(workload: Conv2d, config: HaloConvConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """weight int8 [k' * reduction], bias int32 [classes * k'], scale float32 [k'], scalars [8].

    k' is k padded to block_n, classes are the border classes, row by row; an int32 output takes
    weight and bias alone.
    """
    tile = HaloTiling(workload, config, 1).tile
    weight = np.asarray(constants["weight"])
    zero_point = int(constants.get("x_zero_point", 0))
    bias = border_bias(workload, weight, np.asarray(constants["bias"]), zero_point)
    matrix = pack_weight(weight, tile, config.block_n)
    rows = row_channels(config.block_n, config.channels)
    packed = (
        shared_image(tile_rows(matrix, rows, tile.step_bytes)),
        pad_channels(bias, config.block_n).reshape(-1),
    )
    if workload.epilogue.out_dtype == "int32":
        return packed
    scale = pad_channels(np.asarray(constants["scale"], np.float32), config.block_n)
    return (*packed, scale, packed_scalars(workload.epilogue, constants))


def packed(workload: Conv2d, config: HaloConvConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return HaloTiling(workload, config, 1).constants


TEMPLATE = Template(
    "conv2d_halo", 7, matches, halo_space, default_config, build, pack, packed, preference=70
)
