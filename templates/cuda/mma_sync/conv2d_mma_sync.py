"""int8 and int4 convolution and matrix product with mma.sync: tensor cores of sm_75 to sm_89.

The algorithm and its knobs are those of the paper's implicit-GEMM convolution (duplicates of
pixels are fetched for every filter tap), with packing in registers behind the epilogue. It also
runs on sm_90a, where mma.sync reaches 68% of wgmma's rate (measured on an H200). int4 values stay
packed in memory. Tensor cores up to sm_89 multiply them as they are; sm_90 has none for 4 bits, so
there nibbles become bytes once, on their way into shared memory (the knob `compute` says which).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.layout import LAYOUTS, NHWC, NHWCNC, block_channels
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.borders.bias import bias_rows, border_bias
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.cuda.mma_sync.default import default, estimated_seconds
from autoq.templates.cuda.mma_sync.pack import pack_channels, pack_weight
from autoq.templates.cuda.mma_sync.plan import MmaSyncPlan
from autoq.templates.cuda.mma_sync.scale_groups import group_starts, in_tiles
from autoq.templates.cuda.mma_sync.space import compute_types, space
from autoq.templates.cuda.mma_sync.tiling import MmaSyncTiling, as_conv2d
from autoq.templates.epilogue.cuda.parameters.packed_specs import product_specs
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars, packed_scales
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

_LEAST_COMPUTE_CAPABILITY = 75
# Indices are 32 bits wide, and tiles that overhang the output count on a little.
_MOST_ELEMENTS = (1 << 31) - (1 << 24)
# The least k of a stage, in whole numbers of which scales may change.
_GROUP_MULTIPLE = 32
# Filter rows and columns share one 32-bit word of flags.
_MOST_TAPS = 31


def matches(workload: Workload, target: Target) -> bool:
    """int8 or int4 weights; activations of 8 or 4 bits, each group's in multiples of 4 bytes.

    Any stride, padding, dilation and number of output channels, but for 4-bit outputs and residuals
    whole bytes of them in each group; indices must fit 31 bits. In NHWCnc groups must be whole
    blocks of channels.
    """
    if not isinstance(workload, Conv2d | Gemm) or target.kind != "cuda":
        return False
    if isinstance(workload, Conv2d) and not workload.epilogue.of_convolutions:
        return False
    conv = as_conv2d(workload)
    shapes = (conv.x_shape, conv.weight_shape, conv.y_shape)
    return (
        target.compute_capability >= _LEAST_COMPUTE_CAPABILITY
        and conv.in_dtype in INTEGER_RANGE
        and conv.weight_dtype in ("int4", "int8")
        and bool(compute_types(conv, target))
        and conv.epilogue.scale_group % _GROUP_MULTIPLE == 0
        and not conv.epilogue.factor
        and (conv.c // conv.groups) % _channel_multiple(conv) == 0
        and (conv.k // conv.groups) % _output_multiple(conv) == 0
        and _groups_start_at_bytes(conv)
        and conv.r + conv.s <= _MOST_TAPS
        and all(math.prod(shape) < _MOST_ELEMENTS for shape in shapes)
    )


def _channel_multiple(conv: Conv2d) -> int:
    """What the channels of a group are a multiple of, so that copies are whole and aligned."""
    if conv.in_layout == NHWCNC:
        return block_channels(conv.in_dtype)
    return 8 if is_four_bit(conv.in_dtype) else 4


def _output_multiple(conv: Conv2d) -> int:
    """What the output channels of a group are a multiple of, so that groups are whole blocks."""
    return 1 if conv.out_layout == NHWC else block_channels(conv.epilogue.out_dtype)


def _groups_start_at_bytes(conv: Conv2d) -> bool:
    outputs = (conv.epilogue.out_dtype, conv.epilogue.residual_dtype)
    shared = conv.groups > 1 and conv.k // conv.groups % 2 == 1
    return not shared or not any(map(is_four_bit, outputs))


def build(workload: Conv2d | Gemm, config: MmaSyncConfig, target: Target) -> PrimFunc:
    """PrimFunc (x, [residual], weight, bias, scale, scalars, y); see `build_kernel`."""
    from autoq.templates.cuda.mma_sync.kernel import build_kernel

    return build_kernel(MmaSyncPlan(workload, config, target))


def pack(
    workload: Conv2d | Gemm, config: MmaSyncConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """Constants in the order of `build_kernel`'s parameters."""
    conv = as_conv2d(workload)
    tiling = MmaSyncTiling(conv, config)
    weight = np.asarray(constants["weight"]).reshape(conv.weight_shape)
    zero_point = constants.get("x_zero_point", 0)
    bias = np.asarray(constants["bias"])
    if conv.epilogue.scale_group:
        starts = group_starts(tiling, weight, bias, zero_point)
    else:
        table = border_bias(conv, weight, bias, zero_point)
        starts = pack_channels(tiling, table.reshape(-1, conv.k))
    packed = (pack_weight(tiling, weight), starts)
    if conv.epilogue.out_dtype == "int32":
        return packed
    scale = packed_scales(
        conv.epilogue,
        constants,
        lambda one: pack_channels(tiling, one),
        lambda every: in_tiles(tiling, every),
    )
    return (*packed, scale, packed_scalars(conv.epilogue, constants))


def packed(workload: Conv2d | Gemm, config: MmaSyncConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    conv = as_conv2d(workload)
    tiling = MmaSyncTiling(conv, config)
    groups = conv.scale_groups
    bias = (bias_rows(conv), tiling.padded_k)
    if conv.epilogue.scale_group:
        bias = (tiling.tiles_n, groups, config.block_n)
    return product_specs(conv.epilogue, tiling.packed_weight, bias, tiling.padded_k, groups=groups)


TEMPLATE = Template(
    "conv2d_mma_sync",
    2,
    matches,
    space,
    default,
    build,
    pack,
    packed,
    layouts=frozenset(LAYOUTS),
    estimate=estimated_seconds,
    keeps_nibbles=True,
    preference=20,
)
