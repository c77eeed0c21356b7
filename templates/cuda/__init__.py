"""CUDA kernels as TIRx: tensor-core convolution and GEMM, and kernels limited by memory."""

from __future__ import annotations

from autoq.templates.base import Template
from autoq.templates.cuda import (
    add,
    concat,
    conv2d_depthwise,
    conv2d_direct,
    conv2d_grouped,
    conv2d_halo,
    conv2d_im2col,
    conv2d_mma_sync,
    conv2d_swapped,
    conv2d_swapped_im2col,
    conv2d_tap,
    dequantize,
    gemm_wgmma,
    lookup,
    pool2d,
    quantize,
    relayout,
)

CUDA_TEMPLATES: tuple[Template, ...] = (
    gemm_wgmma.TEMPLATE,
    conv2d_swapped.TEMPLATE,
    conv2d_halo.TEMPLATE,
    conv2d_im2col.TEMPLATE,
    conv2d_tap.TEMPLATE,
    conv2d_swapped_im2col.TEMPLATE,
    conv2d_grouped.TEMPLATE,
    conv2d_mma_sync.TEMPLATE,
    conv2d_depthwise.TEMPLATE,
    conv2d_direct.TEMPLATE,
    pool2d.TEMPLATE,
    add.TEMPLATE,
    concat.TEMPLATE,
    quantize.TEMPLATE,
    dequantize.TEMPLATE,
    lookup.TEMPLATE,
    relayout.TEMPLATE,
)
"""Templates for target kind "cuda", preferred ones first."""
