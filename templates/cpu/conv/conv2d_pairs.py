"""int8 convolution and matrix product by `vpmaddwd`, on CPUs with AVX2 or AVX512BW."""

from __future__ import annotations

from autoq.templates.cpu.conv.template import conv_template, is_byte_product
from autoq.templates.cpu.dot import pairs
from autoq.templates.target import Target
from autoq.templates.workload import Workload


def matches(workload: Workload, target: Target) -> bool:
    """Integer products on a CPU with AVX2 but no AVX512-VNNI, where groups fill a lane's pair."""
    has_vnni = target.vnni and target.avx512
    suits = target.kind == "cpu" and target.avx2 and not has_vnni
    return suits and is_byte_product(workload, 2)


TEMPLATE = conv_template("conv2d_pairs", 1, matches, lambda conv, lanes: pairs(lanes), 10)
