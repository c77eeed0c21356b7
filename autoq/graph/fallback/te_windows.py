"""Primitives over windows of images [n, c, h, w], as TE expressions: what no template computes.

That is convolutions whose weights are activations, and pools that skip pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import te, tirx

from autoq.graph.fallback.te_movement import pad
from autoq.graph.fallback.te_value import Index, Value, constant, is_number, stored
from autoq.graph.ir import Primitive
from autoq.graph.shapes import infer_shape


def _padded(primitive: Primitive, x: Value, outside: float) -> Value:
    """The image with its border stored around it."""
    top, left, bottom, right = primitive["pads"]
    edges = Primitive("Pad", (0,), x.dtype, (
        ("after", (0, 0, bottom, right)), ("before", (0, 0, top, left)), ("value", outside),
    ))  # fmt: skip
    return stored(pad(edges, x), "padded")


def _taps(sizes: tuple[int, int]) -> list[Any]:
    return [te.reduce_axis((0, size), name) for size, name in zip(sizes, "rs", strict=True)]


def _pixel(primitive: Primitive, output: tuple[Any, Any], tap: list[Any]) -> list[Any]:
    """(row, column) of the padded image under a tap of an output's window."""
    places = zip(output, tap, primitive["strides"], primitive["dilations"], strict=True)
    return [i * stride + t * dilation for i, t, stride, dilation in places]


def _conv(primitive: Primitive, x: Value, weight: Value, *bias: Value) -> Value:
    shape = infer_shape("Conv", [x.shape, weight.shape], dict(primitive.attributes))
    padded = _padded(primitive, x, 0.0)
    _, group_c, r, s = weight.shape
    group_k = weight.shape[0] // primitive["groups"]
    c, tap = te.reduce_axis((0, group_c), "c"), _taps((r, s))

    def element(n: Any, k: Any, i: Any, j: Any) -> Any:
        channel = tirx.floordiv(k, group_k) * group_c + c
        pixel = padded.at([n, channel, *_pixel(primitive, (i, j), tap)])
        return te.sum(pixel * weight.at([k, c, *tap]), axis=[c, *tap])

    y = Value.of(te.compute(shape, element, name="conv"))
    if not bias:
        return y
    return Value(shape, "float32", lambda index: y.at(index) + bias[0].at([index[1]]))


def _max_pool(primitive: Primitive, x: Value) -> Value:
    shape = infer_shape("MaxPool", [x.shape], dict(primitive.attributes))
    least = np.finfo(x.dtype).min if x.dtype == "float32" else np.iinfo(x.dtype).min
    padded, tap = _padded(primitive, x, float(least)), _taps(primitive["window"])

    def pixel(n: Any, c: Any, i: Any, j: Any) -> Any:
        return padded.at([n, c, *_pixel(primitive, (i, j), tap)])

    maximum = te.compute(shape, lambda *at: te.max(pixel(*at), axis=tap), name="max_pool")
    if x.dtype != "float32":
        return Value.of(maximum)
    tap = _taps(primitive["window"])  # a reduction has axes of its own

    def missing(*at: Any) -> Any:
        return te.sum(tirx.Select(is_number(pixel(*at)), constant(0.0), constant(1.0)), axis=tap)

    holes = te.compute(shape, missing, name="max_pool_nan")

    def result(index: Index) -> Any:
        at = tuple(index)
        return tirx.Select(holes[at] > constant(0.0), constant(math.nan), maximum[at])

    return Value(shape, x.dtype, result)


def _average_pool(primitive: Primitive, x: Value) -> Value:
    shape = infer_shape("AveragePool", [x.shape], dict(primitive.attributes))
    padded, tap = _padded(primitive, x, 0.0), _taps(primitive["window"])

    def element(n: Any, c: Any, i: Any, j: Any) -> Any:
        return te.sum(padded.at([n, c, *_pixel(primitive, (i, j), tap)]), axis=tap)

    total = te.compute(shape, element, name="average_total")
    rows, columns = primitive["window"]
    if primitive["include_pad"]:
        size = constant(float(rows * columns))
        return Value(shape, "float32", lambda index: total[tuple(index)] / size)
    inner = _taps(primitive["window"])

    def inside(i: Any, j: Any) -> Any:
        places = zip(
            _pixel(primitive, (i, j), inner), primitive["pads"][:2], x.shape[2:], strict=True
        )
        within = [tirx.all(at >= before, at < before + size) for at, before, size in places]
        counted = tirx.Select(tirx.all(*within), constant(1.0), constant(0.0))
        return te.sum(counted, axis=inner)

    count = te.compute(shape[2:], inside, name="average_count")
    return Value(shape, "float32", lambda index: total[tuple(index)] / count[tuple(index[2:])])


WINDOWS: dict[str, Callable[..., Value]] = {
    "Conv": _conv,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
}
