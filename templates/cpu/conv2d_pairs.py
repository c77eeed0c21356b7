"""int8 convolution and matrix product by `vpmaddwd`, on CPUs with AVX2 or AVX512BW."""

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
from autoq.templates.cpu.dot import pairs
from autoq.templates.signature import has_four_bits
from autoq.templates.target import Target
from autoq.templates.workload import Conv2d, Gemm, Workload


def matches(workload: Workload, target: Target) -> bool:
    """Integer products on a CPU with AVX2 but no AVX512-VNNI, where groups fill a lane's pair."""
    if target.kind != "cpu" or not target.avx2 or (target.vnni and target.avx512):
        return False
    if not isinstance(workload, Conv2d | Gemm) or workload.weight_dtype != "int8":
        return False
    grouped = isinstance(workload, Conv2d) and workload.groups > 1
    fills = not grouped or workload.c // workload.groups >= 2
    return workload.in_dtype in ("int8", "uint8") and fills and not has_four_bits(workload)


def space(workload: Conv2d | Gemm, target: Target) -> Space[ConvConfig]:
    """Legal register tiles and task divisions."""
    conv = normalised(workload)
    return conv_space(conv, pairs(_lanes(target)), target)


def default(workload: Conv2d | Gemm, target: Target) -> ConvConfig:
    """The configuration with the least estimated cycles."""
    conv = normalised(workload)
    return fastest_estimate(conv, pairs(_lanes(target)), target)


def build(workload: Conv2d | Gemm, config: ConvConfig, target: Target) -> PrimFunc:
    """The kernel: x [, residual], weight, bias [, scale], scalars [, fill], y."""
    return build_conv(workload, _layout(workload, config))


def pack(workload: Conv2d | Gemm, config: ConvConfig, operands: Operands) -> tuple[np.ndarray, ...]:
    """The kernel's constants, as `pack_conv` says."""
    return pack_conv(_layout(workload, config), operands)


def _lanes(target: Target) -> int:
    """4-byte lanes of the widest vector register."""
    return 16 if target.avx512 else 8


def _layout(workload: Conv2d | Gemm, config: ConvConfig) -> ConvLayout:
    return ConvLayout(normalised(workload), config, pairs(config.lanes))


TEMPLATE = Template("conv2d_pairs", 1, matches, space, default, build, pack)
