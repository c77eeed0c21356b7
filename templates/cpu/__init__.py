"""CPU kernels through LLVM: PrimFuncs built with TVM's IR builder, no schedule transformations."""

from __future__ import annotations

from autoq.templates.base import Template
from autoq.templates.cpu import conv2d_direct, conv2d_vnni

CPU_TEMPLATES: tuple[Template, ...] = (conv2d_vnni.TEMPLATE, conv2d_direct.TEMPLATE)
"""Templates for target kind "cpu", preferred ones first."""
