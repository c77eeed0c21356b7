"""Quantisation by scales and zero points that follow from the values, and products of its integers.

A zero point of a run is taken off the sums: with x the integers as they are, `sum((x - zero_point)
* w)` is `sum(x * w) - zero_point * sum(w)`, and the sum of a column's weights is a constant.
"""

from __future__ import annotations

import math

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.linear import emit_matmul
from autoq.frontend.operators.qdq import constant_scalar, dequantise, quantise
from autoq.frontend.registry import OnnxNode, importer
from autoq.templates.operators.dynamic_quantize import LEVELS, DynamicQuantize

_LARGEST = 2**24
"""Whole numbers of float32 without gaps."""


@importer("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: OnnxNode, b: GraphBuilder) -> list[str]:
    """uint8 by the least and the largest value, 0 among them; its scale and its zero point."""
    return list(_quantised(b, node.required(0, b)))


def _quantised(b: GraphBuilder, x: str) -> tuple[str, str, str]:
    """uint8 integers of float32 `x`, their scale float32 [] and their zero point uint8 [].

    As onnxruntime computes them; values that are all 0 have a scale of 1, and a range below some
    1e-38 has one near it, where onnxruntime's is that small.
    """
    if b.dtype(x) != "float32":
        raise b.error(f"an input of {b.dtype(x)}; float32 is supported")
    shape = b.shape(x)
    if not math.prod(shape):
        raise b.error("an input without elements")
    workload = DynamicQuantize(math.prod(shape))
    value = b.known(x)
    if value is not None:
        integers, scale, zero = workload.reference([np.ravel(value)], {})
        return (
            b.add_constant(integers.reshape(shape)),
            b.add_constant(scale[0]),
            b.add_constant(np.uint8(zero[0])),
        )
    integers, scale, zero_point = b.emit_workload(workload, [x], [shape, (), ()])
    zero_integer = quantise(b, zero_point, np.float32(1), np.uint8(0))
    b.as_floats[zero_integer] = zero_point
    return integers, scale, zero_integer


@importer("MatMulInteger")
def matmul_integer(node: OnnxNode, b: GraphBuilder) -> str:
    """int32 sums of (a - a_zero_point) * (b - b_zero_point)."""
    return _sums(b, node.required(0, b), node.required(1, b), node.input(2), node.input(3))


def _sums(
    b: GraphBuilder, x: str, weight: str, x_zero_point: str | None, weight_zero_point: str | None
) -> str:
    """int32 sums of integers less their zero points; that of x may be one of a run."""
    given = b.constant(weight_zero_point, "b_zero_point") if weight_zero_point else np.asarray(0)
    zero_points = given.reshape(-1) if given.size > 1 else given.reshape(())
    axis = 1 if zero_points.size > 1 else None
    scale = np.ones(zero_points.shape, np.float32)
    integers = b.graph.constants.get(weight)
    found = x_zero_point is not None and x_zero_point not in b.graph.constants
    if found and integers is None:
        raise b.error("a zero point that a run gives beside two activations; use constant weights")
    zero = 0 if found else constant_scalar(b, x_zero_point, "a_zero_point")
    factors = dequantise(b, x, np.float32(1), np.asarray(zero))
    sums = emit_matmul(b, factors, dequantise(b, weight, scale, zero_points, axis))
    if x_zero_point is None or integers is None or not found:
        return b.emit("Cast", [sums], "int32")
    if integers.ndim < 2 or math.prod(integers.shape[:-2]) > 1:
        raise b.error("a zero point that a run gives beside weights that are not one matrix")
    columns = integers.astype(np.int64) - zero_points
    return less_zero_point(b, sums, x_zero_point, columns.reshape(-1, columns.shape[-1]))


def less_zero_point(
    b: GraphBuilder, sums: str, zero_point: str, weight: np.ndarray, pixels: bool = False
) -> str:
    """int32 sums less a uint8 or int8 zero point times the sums of the columns of weight [k, n].

    sums: those of integers as they are, float32; of images [batch, n, height, width] with pixels.
    Where none of them can be 2^24, the difference is known as float32 too: that of two exact
    numbers, rounded as an int32 one is by a Cast.
    """
    shape = b.shape(zero_point)
    if math.prod(shape) != 1 or b.dtype(zero_point) not in ("int8", "uint8"):
        raise b.error(
            f"a_zero_point {b.dtype(zero_point)}{list(shape)}; one number, int8 or uint8, does"
        )
    columns = weight.sum(axis=0).reshape((-1, 1, 1) if pixels else -1)

    def difference(all_sums: str, dtype: str, zero: str) -> str:
        number = b.emit("Reshape", [zero], shape=())
        taken = b.emit("Mul", [number, b.add_constant(columns.astype(dtype))])
        return b.emit("Sub", [all_sums, taken])

    whole = b.emit("Cast", [sums], "int32")
    result = difference(whole, "int32", b.emit("Cast", [zero_point], "int32"))
    one_sign = (np.maximum(part, 0).sum(axis=0).max() for part in (weight, -weight))
    if max(one_sign) * LEVELS < _LARGEST:
        zero = b.as_floats.get(zero_point) or b.emit("Cast", [zero_point], "float32")
        b.as_floats[result] = difference(sums, "float32", zero)
    return result


@importer("DynamicQuantizeMatMul", domain="com.microsoft")
def dynamic_quantize_matmul(node: OnnxNode, b: GraphBuilder) -> str:
    """DynamicQuantizeLinear of x, MatMulInteger, and the scales of both behind."""
    x, scale, zero_point = _quantised(b, node.required(0, b))
    return _scaled_sums(node, b, (x, scale, zero_point), (1, 2, 3, 4))


@importer("MatMulIntegerToFloat", domain="com.microsoft")
def matmul_integer_to_float(node: OnnxNode, b: GraphBuilder) -> str:
    """MatMulInteger with the scales of both factors behind."""
    factor = (node.required(0, b), node.required(2, b), node.input(4))
    return _scaled_sums(node, b, factor, (1, 3, 5, 6))


def _scaled_sums(
    node: OnnxNode, b: GraphBuilder, factor: tuple[str, str, str | None],
    places: tuple[int, int, int, int],
) -> str:  # fmt: skip
    """Sums times both scales, plus a bias.

    factor: the integers, their scale and zero point; places: of the weight, its scale, its zero
    point and the bias among the node's inputs.
    """
    weight, weight_scale, zero_point, bias = places
    x, x_scale, x_zero_point = factor
    sums = _sums(b, x, node.required(weight, b), x_zero_point, node.input(zero_point))
    y = b.as_floats.get(sums) or b.emit("Cast", [sums], "float32")
    y = b.emit("Mul", [y, b.emit("Mul", [x_scale, node.required(weight_scale, b)])])
    return y if node.input(bias) is None else b.emit("Add", [y, node.required(bias, b)])
