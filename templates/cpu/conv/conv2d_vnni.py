"""int8 convolution and matrix product by AVX512-VNNI's `vpdpbusd`."""

from __future__ import annotations

from autoq.templates.cpu.conv.template import conv_template, is_byte_product
from autoq.templates.cpu.dot import vnni
from autoq.templates.target import Target
from autoq.templates.workload import Workload


def matches(workload: Workload, target: Target) -> bool:
    """Integer products on a CPU with AVX512-VNNI, where groups fill the 4 products of a lane."""
    has_vnni = target.vnni and target.avx512
    return target.kind == "cpu" and has_vnni and is_byte_product(workload, 4)


TEMPLATE = conv_template("conv2d_vnni", 1, matches, lambda conv, lanes: vnni(conv.in_dtype), 20)
