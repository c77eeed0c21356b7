"""Matrix product of activations of 4 bits, which `vpmaddwd` multiplies as bytes."""

from __future__ import annotations

from autoq.templates.base import Template
from autoq.templates.cpu.conv import conv2d_pairs
from autoq.templates.cpu.conv.config import ConvConfig
from autoq.templates.cpu.conv.widened_product import WidenedProduct
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program
from autoq.templates.target import Target

_WIDENED = WidenedProduct(conv2d_pairs.TEMPLATE)


def build(workload: Gemm, config: ConvConfig, target: Target) -> Program:
    """x in bytes, then the product; parameters x and what else the product takes."""
    return _WIDENED.build(workload, config, target)


TEMPLATE = Template(
    "gemm_widened_pairs", 1, _WIDENED.matches, _WIDENED.space, _WIDENED.default, build,
    _WIDENED.pack, _WIDENED.packed, preference=10,
)  # fmt: skip
