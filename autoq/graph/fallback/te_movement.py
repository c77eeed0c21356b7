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


def _expand(primitive: Primitive, x: Value) -> Value:
    """Numpy's broadcast to a shape."""
    return Value(tuple(primitive["shape"]), x.dtype, x.broadcast_at)


def _gather(primitive: Primitive, x: Value, indices: Value) -> Value:
    """Elements at places that a run gives, negative ones from the end, clamped to what there is."""
    axis, rank = primitive["axis"], len(indices.shape)
    size = x.shape[axis]
    shape = infer_shape("Gather", [x.shape, indices.shape], dict(primitive.attributes))

    def at(index: Index) -> Any:
        given = indices.at(index[axis : axis + rank]).astype("int32")
        place = tirx.Select(given < 0, given + size, given)
        inside = tirx.max(tirx.min(place, size - 1), 0)
        return x.at([*index[:axis], inside, *index[axis + rank :]])

    return Value(shape, x.dtype, at)


def _take(primitive: Primitive, x: Value, *indices: Value) -> Value:
    """Elements at constant places along some axes."""
    shapes = [x.shape, *(value.shape for value in indices)]
    shape = infer_shape("Take", shapes, dict(primitive.attributes))

    def at(index: Index) -> Any:
        source = list(index)
        for axis, places in zip(primitive["axes"], indices, strict=True):
            source[axis] = places.at([index[axis]])
        return x.at(source)

    return Value(shape, x.dtype, at)


def _interpolate(primitive: Primitive, x: Value, *taps: Value) -> Value:
    """Sums of elements at constant places along some axes, each times a constant weight."""
    axes, places, weights = primitive["axes"], taps[::2], taps[1::2]
    shapes = [x.shape, *(value.shape for value in taps)]
    shape = infer_shape("Interpolate", shapes, dict(primitive.attributes))

    def along(position: int, source: list[Any], index: Index) -> Any:
        if position == len(axes):
            return x.at(source)
        axis, total = axes[position], None
        for tap in range(places[position].shape[0]):
            here = list(source)
            here[axis] = places[position].at([tap, index[axis]])
            part = along(position + 1, here, index) * weights[position].at([tap, index[axis]])
            total = part if total is None else total + part
        return total

    return Value(shape, "float32", lambda index: along(0, list(index), index))


MOVEMENT: dict[str, Callable[..., Value]] = {
    "Pad": pad,
    "Slice": _moved(_sliced),
    "Transpose": _moved(_transposed),
    "ChannelShuffle": _moved(_shuffled),
    "Concat": _concat,
    "Windows": _unrolled,
    "Expand": _expand,
    "Gather": _gather,
    "Take": _take,
    "Interpolate": _interpolate,
}
