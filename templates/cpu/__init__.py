"""CPU kernels through LLVM: PrimFuncs built with TVM's IR builder, no schedule transformations."""

from __future__ import annotations

from autoq.templates.base import Template
from autoq.templates.cpu import (
    add,
    concat,
    conv2d_direct,
    conv2d_pairs,
    conv2d_vnni,
    dequantize,
    lookup,
    pool2d,
    quantize,
)

CPU_TEMPLATES: tuple[Template, ...] = (
    conv2d_vnni.TEMPLATE,
    conv2d_pairs.TEMPLATE,
    conv2d_direct.TEMPLATE,
    pool2d.TEMPLATE,
    add.TEMPLATE,
    concat.TEMPLATE,
    quantize.TEMPLATE,
    dequantize.TEMPLATE,
    lookup.TEMPLATE,
)
"""Templates for target kind "cpu", preferred ones first."""
