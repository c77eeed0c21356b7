"""Convolution and matrix product on any CPU: float32, or bytes widened to int32; depthwise too."""

from __future__ import annotations

from autoq.templates.cpu.conv.template import conv_template, has_signed_weight
from autoq.templates.cpu.dot import Dot, multiply_add
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.templates.workload import Workload


def matches(workload: Workload, target: Target) -> bool:
    """Convolutions and products in float32 throughout, or of bytes times int8 or int4."""
    if target.kind != "cpu" or not isinstance(workload, Conv2d | Gemm):
        return False
    epilogue = workload.epilogue
    if workload.in_dtype == "float32":
        floats = (workload.weight_dtype, epilogue.out_dtype, epilogue.residual_dtype or "float32")
        return set(floats) == {"float32"}
    return has_signed_weight(workload)


def _dot(conv: Conv2d, lanes: int) -> Dot:
    depthwise = conv.groups > 1 and conv.groups == conv.c == conv.k
    return multiply_add(conv.in_dtype, depthwise, lanes)


TEMPLATE = conv_template("conv2d_direct_cpu", 1, matches, _dot, 1)
