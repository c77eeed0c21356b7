"""Which convolutions wgmma multiplies, by rows that TMA can address."""

from __future__ import annotations

from autoq.templates.cuda.device.memory.tma import MAX_ELEMENT_STRIDE, MAX_IM2COL_CORNER
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.target import Target

_ALIGNMENT = 16
_LARGEST = 1 << 31


def supported(workload: Conv2d, target: Target) -> bool:
    """8-bit dense convolutions whose rows of channels TMA can address (c a multiple of 16)."""
    return workload.epilogue.of_convolutions and supports_sums(workload, target)


def supports_sums(workload: Conv2d, target: Target) -> bool:
    """The same whatever follows the sums."""
    pixels = workload.n * workload.p * workload.q
    return (
        target.has_wgmma
        and workload.in_dtype in ("int8", "uint8")
        and workload.weight_dtype in ("int4", "int8")
        and not workload.has_four_bit_activations
        and workload.groups == 1
        and workload.c % _ALIGNMENT == 0
        and workload.n * workload.h * workload.w * workload.c < _LARGEST
        and pixels * workload.k < _LARGEST
    )


def supports_im2col(workload: Conv2d, target: Target) -> bool:
    """Those of them whose strides, corners and taps an im2col tensor map can express."""
    return supported(workload, target) and im2col_reaches(workload)


def im2col_reaches(workload: Conv2d | FloatConv2d) -> bool:
    """Whether an im2col tensor map can express the strides, corners and taps."""
    reach = (
        (workload.r - 1) * workload.dilation[0],
        (workload.s - 1) * workload.dilation[1],
    )
    return (
        max(workload.stride) <= MAX_ELEMENT_STRIDE
        and max(workload.padding) <= MAX_IM2COL_CORNER
        and max(reach) < MAX_IM2COL_CORNER
    )
