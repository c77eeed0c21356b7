"""Primitives that move values, as TE expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from autoq.graph.fallback.te_value import Index, Value, constant
from autoq.graph.ir import Primitive
from autoq.graph.shapes import infer_shape


def _moved(where: Callable[[Primitive, Value, Index], Index]) -> Callable[..., Value]:
    """A primitive that reads its input elsewhere."""

    def primitive_value(primitive: Primitive, x: Value) -> Value:
        if primitive.op == "ChannelShuffle":
            shape = x.shape
        else:
            shape = infer_shape(primitive.op, [x.shape], dict(primitive.attributes))
        return Value(shape, x.dtype, lambda index: x.at(where(primitive, x, index)))

    return primitive_value


def _transposed(primitive: Primitive, x: Value, index: Index) -> Index:
    source = [None] * len(index)
    for position, axis in enumerate(primitive["perm"]):
        source[axis] = index[position]
    return source


def _sliced(primitive: Primitive, x: Value, index: Index) -> Index:
    return [
        start + i * stride
        for start, i, stride in zip(primitive["starts"], index, primitive["steps"], strict=True)
    ]


def _shuffled(primitive: Primitive, x: Value, index: Index) -> Index:
    axis, groups = primitive["axis"], primitive["groups"]
    source = list(index)
    each = x.shape[axis] // groups
    channel = index[axis]
    source[axis] = tirx.floormod(channel, groups) * each + tirx.floordiv(channel, groups)
    return source


def pad(primitive: Primitive, x: Value) -> Value:
    """Constant padding."""

    shape = infer_shape("Pad", [x.shape], dict(primitive.attributes))

    def at(index: Index) -> Any:
        inside, source = [], []
        for i, before, size, whole in zip(index, primitive["before"], x.shape, shape, strict=True):
            source.append(i - before)
            if whole != size:
                inside += [i >= before, i < before + size]
        if not inside:
            return x.at(source)
        outside = constant(primitive["value"], x.dtype)
        return tirx.if_then_else(tirx.all(*inside), x.at(source), outside)

    return Value(shape, x.dtype, at)


def _concat(primitive: Primitive, *parts: Value) -> Value:
    axis = primitive["axis"]
    shape = infer_shape("Concat", [part.shape for part in parts], dict(primitive.attributes))

    def at(index: Index) -> Any:
        starts = [sum(part.shape[axis] for part in parts[:i]) for i in range(len(parts))]
        result = None
        for part, start in reversed(list(zip(parts, starts, strict=True))):
            source = list(index)
            source[axis] = index[axis] - start
            element = part.at(source)
            reach = start + part.shape[axis]
            result = (
                element
                if result is None
                else tirx.if_then_else(index[axis] < reach, element, result)
            )
        return result

    return Value(shape, parts[0].dtype, at)


def _unrolled(primitive: Primitive, x: Value) -> Value:
    """Each window of an image as channels of one pixel, tap by tap; zeros lie around the image."""
    axis, (top, left, *_) = primitive["axis"], primitive["pads"]
    shape = infer_shape("Windows", [x.shape], dict(primitive.attributes))
    channels, columns = x.shape[axis], primitive["window"][1]
    rows_at = 2 if axis == 1 else 1

    def at(index: Index) -> Any:
        tap = tirx.floordiv(index[axis], channels)
        taps = tirx.floordiv(tap, columns), tirx.floormod(tap, columns)
        source, inside = list(index), []
        source[axis] = tirx.floormod(index[axis], channels)
        for place, (step, gap, before) in enumerate(
            zip(primitive["strides"], primitive["dilations"], (top, left), strict=True)
        ):
            pixel = index[rows_at + place] * step + taps[place] * gap - before
            source[rows_at + place] = pixel
            inside += [pixel >= 0, pixel < x.shape[rows_at + place]]
        return tirx.if_then_else(tirx.all(*inside), x.at(source), constant(0.0, x.dtype))

    return Value(shape, x.dtype, at)


MOVEMENT: dict[str, Callable[..., Value]] = {
    "Pad": pad,
    "Slice": _moved(_sliced),
    "Transpose": _moved(_transposed),
    "ChannelShuffle": _moved(_shuffled),
    "Concat": _concat,
    "Windows": _unrolled,
}
