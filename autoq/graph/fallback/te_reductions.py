"""Primitives that look at many elements for each result, as TE expressions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from autoq.graph.fallback.te_elementwise import binary
from autoq.graph.fallback.te_value import Index, Value, constant, stored
from autoq.graph.ir import Primitive
from autoq.graph.shapes import infer_shape

SUM = "total"
"""What names of blocks that add up elements hold."""


def _softmax(primitive: Primitive, x: Value) -> Value:
    axis = primitive["axis"]
    rest = tuple(size for i, size in enumerate(x.shape) if i != axis)

    def whole(outer: Index, inner: Any) -> list[Any]:
        return [*outer[:axis], inner, *outer[axis:]]

    k = te.reduce_axis((0, x.shape[axis]), "k")
    largest = te.compute(rest, lambda *i: te.max(x.at(whole(i, k)), axis=k), name="softmax_maximum")
    powers = te.compute(
        x.shape,
        lambda *i: te.exp(x.at(i) - largest[(*i[:axis], *i[axis + 1 :])]),
        name="softmax_power",
    )
    k = te.reduce_axis((0, x.shape[axis]), "k")
    total = te.compute(
        rest, lambda *i: te.sum(powers[tuple(whole(i, k))], axis=k), name=f"softmax_{SUM}"
    )

    def at(index: Index) -> Any:
        return powers[tuple(index)] / total[(*index[:axis], *index[axis + 1 :])]

    return Value(x.shape, "float32", at)


def _lrn(primitive: Primitive, x: Value) -> Value:
    axis, size = primitive["axis"], primitive["size"]
    before = (size - 1) // 2

    def at(index: Index) -> Any:
        total = constant(0.0)
        for shift in range(-before, size - before):
            channel = index[axis] + shift
            source = [*index[:axis], channel, *index[axis + 1 :]]
            element = x.at(source)
            inside = tirx.all(channel >= 0, channel < x.shape[axis])
            total = total + tirx.if_then_else(inside, element * element, constant(0.0))
        divisor = constant(primitive["bias"]) + constant(primitive["alpha"] / size) * total
        return x.at(index) / tirx.pow(divisor, constant(primitive["beta"]))

    return Value(x.shape, "float32", at)


def _mean(primitive: Primitive, x: Value) -> Value:
    axes = primitive["axes"]
    shape = infer_shape("ReduceMean", [x.shape], dict(primitive.attributes))
    reduced = {axis: te.reduce_axis((0, x.shape[axis]), f"k{axis}") for axis in axes}
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    total = te.compute(
        shape,
        lambda *i: te.sum(
            x.at([reduced.get(axis, position) for axis, position in enumerate(i)]),
            axis=list(reduced.values()),
        ),
        name=f"mean_{SUM}",
    )
    return Value(shape, "float32", lambda index: total[tuple(index)] / constant(float(count)))


def _sum(primitive: Primitive, x: Value) -> Value:
    axes = primitive["axes"]
    shape = infer_shape("ReduceSum", [x.shape], dict(primitive.attributes))
    reduced = {axis: te.reduce_axis((0, x.shape[axis]), f"k{axis}") for axis in axes}

    def total(*index: Any) -> Any:
        source = [reduced.get(axis, position) for axis, position in enumerate(index)]
        return te.sum(x.at(source), axis=list(reduced.values()))

    return Value.of(te.compute(shape, total, name=SUM))


def _most(primitive: Primitive, x: Value) -> Value:
    """The largest number: NaN is passed over.

    Floats are compared by their bits: TVM's maximum of floats begins above minus infinity.
    """
    axes, is_float = primitive["axes"], x.dtype == "float32"
    shape = infer_shape("ReduceMax", [x.shape], dict(primitive.attributes))
    reduced = {axis: te.reduce_axis((0, x.shape[axis]), f"k{axis}") for axis in axes}

    def element(*index: Any) -> Any:
        value = x.at([reduced.get(axis, position) for axis, position in enumerate(index)])
        return te.max(_ordered(value) if is_float else value, axis=list(reduced.values()))

    largest = te.compute(shape, element, name="largest")
    if not is_float:
        return Value.of(largest)

    def number(index: Index) -> Any:
        bits = largest[tuple(index)]
        return tirx.reinterpret("float32", _turned(bits))

    return Value(shape, "float32", number)


def _ordered(value: Any) -> Any:
    """int32 in the order of float32 numbers; NaN is what minus infinity is."""
    least = constant(-math.inf)
    return _turned(tirx.reinterpret("int32", tirx.Select(value > least, value, least)))


def _turned(bits: Any) -> Any:
    """A float's bits in the order of its numbers, and the other way round: negative ones turn."""
    return tirx.Select(bits < 0, bits ^ tirx.const(0x7FFFFFFF, "int32"), bits)


# Factors of a product are stored: dlight pads the reduction to whole tiles with zeros of what the
# product reads, and a zero that is dequantised behind the padding is not the number 0.


def _matmul(primitive: Primitive, a: Value, b: Value) -> Value:
    a, b = stored(a, "left"), stored(b, "right")
    shape = infer_shape("MatMul", [a.shape, b.shape], {})
    k = te.reduce_axis((0, a.shape[-1]), "k")

    def element(*index: Any) -> Any:
        *batch, row, column = index
        left = a.broadcast_at([*batch, row, k])
        return te.sum(left * b.broadcast_at([*batch, k, column]), axis=k)

    return Value.of(te.compute(shape, element, name="matmul"))


def _gemm(primitive: Primitive, x: Value, weight: Value, *bias: Value) -> Value:
    x, weight = stored(x, "left"), stored(weight, "right")
    k = te.reduce_axis((0, x.shape[1]), "k")
    products = te.compute(
        (x.shape[0], weight.shape[0]),
        lambda i, j: te.sum(x.at([i, k]) * weight.at([j, k]), axis=k),
        name="gemm",
    )
    if not bias:
        return Value.of(products)
    return binary(lambda a, b: a + b)(primitive, Value.of(products), bias[0])


REDUCTIONS: dict[str, Callable[..., Value]] = {
    "Softmax": _softmax,
    "LRN": _lrn,
    "ReduceMean": _mean,
    "ReduceMax": _most,
    "ReduceSum": _sum,
    "MatMul": _matmul,
    "Gemm": _gemm,
}
