"""int8 convolution and matrix product by `vpmaddwd`, on CPUs with AVX2 or AVX512BW."""

from __future__ import annotations

from autoq.templates.cpu.conv_template import conv_template
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


TEMPLATE = conv_template("conv2d_pairs", 1, matches, lambda conv, lanes: pairs(lanes))
