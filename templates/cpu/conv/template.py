"""A template of the register-tiled CPU convolution for one kind of dot step."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.conv.build import build_conv
from autoq.templates.cpu.conv.config import ConvConfig
from autoq.templates.cpu.conv.pack import pack_conv, packed_conv
from autoq.templates.cpu.conv.space import conv_space, fastest_estimate
from autoq.templates.cpu.conv.tiling import ConvTiling, normalised
from autoq.templates.cpu.dot import Dot
from autoq.templates.cpu.vector import vector_lanes
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload


def has_signed_weight(workload: Conv2d | Gemm) -> bool:
    """Whether it multiplies bytes by int8, or by int4, which `pack` makes int8."""
    signed = workload.in_dtype in ("int8", "uint8") and workload.weight_dtype in ("int8", "int4")
    return signed and not workload.has_four_bit_activations


def is_byte_product(workload: Workload, depth: int) -> bool:
    """Whether its weight is signed, with groups that fill a lane's `depth` products."""
    if not isinstance(workload, Conv2d | Gemm) or not has_signed_weight(workload):
        return False
    grouped = isinstance(workload, Conv2d) and workload.groups > 1
    return not grouped or workload.c // workload.groups >= depth


# Products of a step of the dot products there are: a group of scales is whole steps.
_LARGEST_DEPTH = 4


def _follows(workload: Conv2d | Gemm, target: Target) -> bool:
    """Whether kernels compute the epilogue: what only products have needs sums of integers.

    Conversions of float16 came with AVX2.
    """
    epilogue = workload.epilogue
    if epilogue.of_convolutions:
        return True
    halves = "float16" in (epilogue.out_dtype, epilogue.residual_dtype)
    integers = isinstance(workload, Gemm) and workload.in_dtype != "float32"
    if epilogue.factor or epilogue.scale_group % _LARGEST_DEPTH:
        return False
    return integers and (target.avx2 or not halves)


def conv_template(
    name: str,
    version: int,
    matches: Callable[[Workload, Target], bool],
    dot_of: Callable[[Conv2d, int], Dot],
    preference: int = 0,
) -> Template:
    """The template of the workloads that `matches` takes.

    None of them takes a table of outputs: a pass of `lookup_cpu` over outputs that lie in caches
    costs little. dot_of gives the step of a normalised convolution for a number of lanes. Kernels
    take x [, residual], the constants of `pack_conv`, then y. preference is that of the template.
    """

    def dot_on(conv: Conv2d, target: Target) -> Dot:
        return dot_of(conv, vector_lanes(target))

    def tiling_of(workload: Conv2d | Gemm, config: ConvConfig) -> ConvTiling:
        conv = normalised(workload)
        return ConvTiling(conv, config, dot_of(conv, config.lanes))

    def space(workload: Conv2d | Gemm, target: Target) -> Space[ConvConfig]:
        conv = normalised(workload)
        return conv_space(conv, dot_on(conv, target), target)

    def default(workload: Conv2d | Gemm, target: Target) -> ConvConfig:
        conv = normalised(workload)
        return fastest_estimate(conv, dot_on(conv, target), target)

    def build(workload: Conv2d | Gemm, config: ConvConfig, target: Target) -> PrimFunc:
        return build_conv(workload, tiling_of(workload, config))

    def pack(
        workload: Conv2d | Gemm, config: ConvConfig, constants: Constants
    ) -> tuple[np.ndarray, ...]:
        return pack_conv(tiling_of(workload, config), constants)

    def packed(workload: Conv2d | Gemm, config: ConvConfig) -> tuple[TensorSpec, ...]:
        return packed_conv(tiling_of(workload, config))

    @functools.wraps(matches)
    def without_table(workload: Workload, target: Target) -> bool:
        fits = matches(workload, target) and not workload.epilogue.table
        return fits and _follows(workload, target)

    return Template(
        name, version, without_table, space, default, build, pack, packed, preference=preference,
        module=matches.__module__,
    )  # fmt: skip
