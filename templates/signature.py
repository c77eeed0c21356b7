"""Shapes and dtypes of a workload's activations: what goes in, what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.lookup import Lookup
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.operators.relayout import Relayout
from autoq.templates.storage import Array, is_four_bit
from autoq.templates.workload import Workload


def signature(workload: Workload) -> tuple[tuple[Array, ...], Array]:
    """The activations of a template's PrimFunc in their order, and its output.

    Shapes count values; `storage.stored` gives the arrays that hold them.
    """
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
    if isinstance(workload, Lookup):
        return ((workload.shape, workload.in_dtype),), (workload.y_shape, workload.out_dtype)
    if isinstance(workload, Pool2d):
        x = (workload.x_shape, workload.in_dtype)
        return (x,), (workload.y_shape, workload.out_dtype)
    if isinstance(workload, Relayout):
        return ((workload.x_shape, workload.in_dtype),), (workload.y_shape, workload.in_dtype)
    raise TypeError(f"not a workload: {workload!r}")


def has_four_bits(workload: Workload) -> bool:
    """Whether an activation or the weights are of 4 bits."""
    weights = is_four_bit(getattr(workload, "weight_dtype", None))
    return weights or has_four_bit_activations(workload)


def has_four_bit_activations(workload: Workload) -> bool:
    """Whether an input or the output is of 4 bits, whatever the weights are."""
    inputs, output = signature(workload)
    return any(is_four_bit(dtype) for _, dtype in (*inputs, output))


def retyped(workload: Workload, inputs: Sequence[str], output: str) -> Workload:
    """The workload over activations of other dtypes, given in the order of `signature`."""
    if isinstance(workload, Conv2d | Gemm):
        residual = inputs[1] if workload.epilogue.residual_dtype else None
        epilogue = replace(workload.epilogue, out_dtype=output, residual_dtype=residual)
        return replace(workload, in_dtype=inputs[0], epilogue=epilogue)
    if isinstance(workload, Add):
        return replace(workload, a_dtype=inputs[0], b_dtype=inputs[1], out_dtype=output)
    if isinstance(workload, Concat):
        return replace(workload, in_dtypes=tuple(inputs), out_dtype=output)
    if isinstance(workload, Quantize):
        return replace(workload, out_dtype=output)
    if isinstance(workload, Dequantize | Relayout):
        return replace(workload, in_dtype=inputs[0])
    return replace(workload, in_dtype=inputs[0], out_dtype=output)
