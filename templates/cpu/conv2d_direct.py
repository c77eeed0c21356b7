"""Convolution and matrix product on any CPU: float32, or bytes widened to int32; depthwise too."""

from __future__ import annotations

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.base import Operands, Template
from autoq.templates.cpu.conv_build import build_conv
from autoq.templates.cpu.conv_config import ConvConfig
from autoq.templates.cpu.conv_layout import ConvLayout, normalised
from autoq.templates.cpu.conv_pack import pack_conv
from autoq.templates.cpu.conv_space import conv_space, fastest_estimate
from autoq.templates.cpu.dot import Dot, multiply_add
from autoq.templates.signature import has_four_bits
from autoq.templates.target import Target
from autoq.templates.workload import Conv2d, Gemm, Workload


def matches(workload: Workload, target: Target) -> bool:
    """Every CPU; float32 throughout, or bytes times int8."""
    if target.kind != "cpu" or not isinstance(workload, Conv2d | Gemm):
        return False
    epilogue = workload.epilogue
    if workload.in_dtype == "float32":
        floats = (workload.weight_dtype, epilogue.out_dtype, epilogue.residual_dtype or "float32")
        return set(floats) == {"float32"}
    bytes_only = workload.in_dtype in ("int8", "uint8") and workload.weight_dtype == "int8"
    return bytes_only and not has_four_bits(workload)


def space(workload: Conv2d | Gemm, target: Target) -> Space[ConvConfig]:
    """Legal register tiles and task divisions."""
    conv = normalised(workload)
    return conv_space(conv, _dot(conv, _lanes(target)), target)


def default(workload: Conv2d | Gemm, target: Target) -> ConvConfig:
    """The configuration with the least estimated cycles."""
    conv = normalised(workload)
    return fastest_estimate(conv, _dot(conv, _lanes(target)), target)


def build(workload: Conv2d | Gemm, config: ConvConfig, target: Target) -> PrimFunc:
    """The kernel: x [, residual], weight, bias [, scale], scalars [, fill], y."""
    return build_conv(workload, _layout(workload, config))


def pack(workload: Conv2d | Gemm, config: ConvConfig, operands: Operands) -> tuple[np.ndarray, ...]:
    """The kernel's constants, as `pack_conv` says."""
    return pack_conv(_layout(workload, config), operands)


def _lanes(target: Target) -> int:
    """4-byte lanes of the widest vector register."""
    return 16 if target.avx512 else 8 if target.avx2 else 4


def _dot(conv: Conv2d, lanes: int) -> Dot:
    depthwise = conv.groups > 1 and conv.groups == conv.c == conv.k
    return multiply_add(conv.in_dtype, depthwise, lanes)


def _layout(workload: Conv2d | Gemm, config: ConvConfig) -> ConvLayout:
    conv = normalised(workload)
    return ConvLayout(conv, config, _dot(conv, config.lanes))


TEMPLATE = Template("conv2d_direct_cpu", 1, matches, space, default, build, pack)
