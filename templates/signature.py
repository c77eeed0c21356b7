"""Shapes and dtypes of a workload's activations: what goes in, what comes out."""

from __future__ import annotations

from autoq.templates.movement import Add, Concat, Dequantize, Pool2d, Quantize
from autoq.templates.workload import Conv2d, Gemm, Workload

Array = tuple[tuple[int, ...], str]
"""Shape and dtype."""


def signature(workload: Workload) -> tuple[tuple[Array, ...], Array]:
    """The activations of a template's PrimFunc in their order, and its output."""
    if isinstance(workload, Conv2d | Gemm):
        epilogue = workload.epilogue
        inputs: tuple[Array, ...] = ((workload.x_shape, workload.in_dtype),)
        if epilogue.residual_dtype:
            inputs += ((workload.y_shape, epilogue.residual_dtype),)
        return inputs, (workload.y_shape, epilogue.out_dtype)
    if isinstance(workload, Add):
        a, b = (workload.shape, workload.a_dtype), (workload.shape, workload.b_dtype)
        return (a, b), (workload.y_shape, workload.out_dtype)
    if isinstance(workload, Concat):
        pairs = zip(workload.channels, workload.in_dtypes, strict=True)
        inputs = tuple(((workload.outer, channels), dtype) for channels, dtype in pairs)
        return inputs, (workload.y_shape, workload.out_dtype)
    if isinstance(workload, Quantize):
        return ((workload.x_shape, "float32"),), (workload.y_shape, workload.out_dtype)
    if isinstance(workload, Dequantize):
        return ((workload.x_shape, workload.in_dtype),), (workload.y_shape, "float32")
    if isinstance(workload, Pool2d):
        x = (workload.x_shape, workload.in_dtype)
        return (x,), (workload.y_shape, workload.out_dtype)
    raise TypeError(f"not a workload: {workload!r}")
