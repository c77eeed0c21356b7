"""The integers that a quantised convolution or matrix product computes with, where they do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from autoq.graph.constants import along_axis
from autoq.graph.fused import LARGEST_SCALE, Scheme, scheme_of
from autoq.graph.ir import Graph, Operation
from autoq.graph.passes.layers.epilogue_match import Tail
from autoq.graph.rewrite import Neighbourhood
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.storage import BYTE_DTYPES

_LARGEST_SUM = 2.0**31 - 1
_LARGEST_STEP_ERROR = 1 / 16
"""The share of a result's step that rounding a bias to steps of the products may move it by."""
_LARGEST_RELATIVE_ERROR = 2.0**-13
"""The same share of what a layer's sums typically come to, where its result is float32."""

# Integers that are looked at together, which are some megabytes as float32 and int64.
_PART = 1 << 20


@dataclass(frozen=True)
class IntegerOperands:
    """What an integer kernel multiplies and adds.

    x names the activations, of `scheme`. weight is int8, less its zero point, and weight_dtype
    int4 for weights that the model holds in 4 bits and that fit it. product is the float32 step
    [k] of each filter's sums, bias int32 [k] the bias in such steps, or one for every kind of
    border as `with_border` makes it, and bias_error float64 [k] what of the bias the rounding to
    steps left out, as a real number. typical is what the sums come to for activations spread over a
    quarter of their range, the largest of all filters.
    """

    x: str
    scheme: Scheme
    weight: np.ndarray
    weight_dtype: str
    product: np.ndarray
    bias: np.ndarray
    bias_error: np.ndarray
    typical: float


def integer_operands(graph: Graph, node: Operation, around: Neighbourhood) -> IntegerOperands | str:
    """The operands of a Conv or Gemm of dequantised integers.

    Where integers do not do, the reason, or "" for a node that is not quantised.
    """
    x = around.producer(node.inputs[0], "DequantizeLinear")
    weight = around.producer(node.inputs[1], "DequantizeLinear")
    if x is None or weight is None or weight.inputs[0] not in graph.constants:
        return ""
    scheme = scheme_of(graph, x)
    if scheme is None:
        return _no_scheme(graph, x)
    integers = _centred(graph, weight)
    if isinstance(integers, str):
        return integers
    k = len(integers)
    scales = np.broadcast_to(np.asarray(weight.attributes["scale"], np.float64), (k,))
    product = float(scheme.scale) * scales
    if not np.all(np.abs(product) <= LARGEST_SCALE**2):
        return f"its products have a scale of {np.abs(product).max():.3g}"
    real = np.zeros(k)
    if len(node.inputs) > 2:
        constant = around.constant(node.inputs[2])
        if constant is None:
            return "its bias is no constant"
        real = np.broadcast_to(constant.astype(np.float64).reshape(-1), (k,))
    dtype = _weight_dtype(graph.dtype(weight.inputs[0]), integers)
    return _with_bias(x.inputs[0], scheme, integers, dtype, product, real)


def _no_scheme(graph: Graph, x: Operation) -> str:
    dtype = graph.dtype(x.inputs[0])
    if dtype not in INTEGER_RANGE:
        return f"its input is {dtype}"
    if x.attributes["axis"] is not None:
        return "its input has a scale for each channel"
    return f"its input has a scale of {float(x.attributes['scale']):.3g}"


def _centred(graph: Graph, weight: Operation) -> np.ndarray | str:
    """int32 weights less their zero points, or why they are no operand."""
    axis = weight.attributes["axis"]
    if axis not in (None, 0):
        return "its weights have no scale for each output channel"
    integers = graph.constants[weight.inputs[0]].astype(np.int32)
    integers = integers - along_axis(weight.attributes["zero_point"], axis, integers.ndim)
    if integers.min(initial=0) < -128 or integers.max(initial=0) > 127:
        return "its weights less their zero points need more than 8 bits"
    return integers


def _parts(weight: np.ndarray) -> Iterator[np.ndarray]:
    """Some outputs of a weight after the other, [outputs, the rest]: some megabytes at once."""
    rows = weight.reshape(len(weight), math.prod(weight.shape[1:]))
    step = max(1, _PART // max(1, rows.shape[1]))
    return (rows[start : start + step] for start in range(0, max(1, len(rows)), step))


def _with_bias(
    x: str, scheme: Scheme, integers: np.ndarray, weight_dtype: str, product: np.ndarray,
    real: np.ndarray,
) -> IntegerOperands | str:  # fmt: skip
    """The operands with the bias `real` rounded to whole steps."""
    has_step = np.abs(product) >= np.finfo(np.float32).tiny
    if not np.all(np.isfinite(real)) or np.any(real[~has_step]):
        return "its bias is no number of steps of its products"
    sums = np.rint(np.divide(real, product, out=np.zeros_like(real), where=has_step))
    least, most = INTEGER_RANGE[scheme.dtype]
    farthest = max(scheme.zero_point - least, most - scheme.zero_point)
    rows = np.concatenate(
        [np.abs(part).sum(axis=1, dtype=np.int64) for part in _parts(integers)], dtype=np.float64
    )
    if np.any(rows * farthest + np.abs(sums) > _LARGEST_SUM):
        return "its sums, bias included, do not fit 32 bits"
    squares = np.concatenate(
        [np.square(part.astype(np.float32)).sum(axis=1) for part in _parts(integers)],
        dtype=np.float64,
    )
    typical = np.abs(product) * np.sqrt(squares) * (most - least) / 4
    return IntegerOperands(
        x, scheme, integers.astype(np.int8), weight_dtype, product.astype(np.float32),
        sums.astype(np.int32), np.abs(real - sums * product), float(typical.max(initial=0)),
    )  # fmt: skip


def with_border(operands: IntegerOperands, border: np.ndarray) -> IntegerOperands | str:
    """The operands with what each kind of border adds, float64 [row classes, column classes, k].

    Their bias is then a table of that shape. Where integers do not do, the reason.
    """
    product = operands.product.astype(np.float64)
    has_step = np.abs(product) >= np.finfo(np.float32).tiny
    if not np.all(np.isfinite(border)) or np.any(border[..., ~has_step]):
        return "its border is no number of steps of its products"
    steps = np.rint(np.divide(border, product, out=np.zeros_like(border), where=has_step))
    least, most = INTEGER_RANGE[operands.scheme.dtype]
    farthest = max(operands.scheme.zero_point - least, most - operands.scheme.zero_point)
    rows = np.array([np.abs(row.astype(np.int64)).sum() for row in operands.weight], np.float64)
    bias = operands.bias + steps
    if np.any(rows * farthest + np.abs(bias) > _LARGEST_SUM):
        return "its sums, borders included, do not fit 32 bits"
    lost = np.abs(border - steps * product).max(axis=(0, 1))
    return replace(operands, bias=bias.astype(np.int32), bias_error=operands.bias_error + lost)


def _weight_dtype(declared: str, integers: np.ndarray) -> str:
    least, most = INTEGER_RANGE["int4"]
    fits = integers.min(initial=0) >= least and integers.max(initial=0) <= most
    return "int4" if declared in BYTE_DTYPES and fits else "int8"


def out_of_range(operands: IntegerOperands, tail: Tail) -> str:
    """Why `tail` cannot follow these operands' sums, "" where it can.

    A bias is rounded to steps of the products, by half of one at most. int32 sums themselves are
    exact or nothing.
    """
    if tail.sums and (np.any(operands.product != 1.0) or np.any(operands.bias_error)):
        return "its 32-bit sums have a scale or a bias of their own"
    first = tail.scheme if tail.inner is None else tail.inner[0]
    allowed = _LARGEST_RELATIVE_ERROR * operands.typical
    if first is not None:
        allowed = _LARGEST_STEP_ERROR * float(first.scale)
    if np.any(operands.bias_error > allowed):
        return "its bias is no number of steps of its products, which are coarse"
    return ""
