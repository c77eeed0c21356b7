"""Shapes of the semantic graph's operations (NCHW, all static)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Shape = tuple[int, ...]

UNARY = (
    "Relu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "LeakyRelu", "Elu", "Tanh", "Exp",
    "Log", "Sqrt", "Neg", "Abs", "Reciprocal", "Erf", "Cast", "Floor", "Ceil", "Round",
    "Softplus", "Identity", "Sin", "Cos", "Sign", "IsNaN",
)  # fmt: skip
COMPARISONS = ("Equal", "Greater", "GreaterOrEqual")
"""Their result, and whatever else ONNX calls a bool, is the float32 number 0 or 1."""

BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", *COMPARISONS)
TERNARY = ("Where",)
BROADCASTING = (*BINARY, *TERNARY)
LARGEST_SIZE = 2**31 - 1
"""Elements of an array: kernels index by 32-bit integers."""

LARGEST_PASSING = 2**40
"""Elements of a tensor that one operation hands to the next: attention in one kernel has no array
of its scores, which shows when a graph is optimised."""

LARGEST_INPUTS = 32
"""Tensors and constants that one kernel reads."""

SAME = (*UNARY, "QuantizeLinear", "DequantizeLinear", "DequantizeBlocks", "Softmax", "LRN")


def infer_shape(op: str, shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """Shape of the result of `op`; raises ValueError with numbers where the inputs do not fit.

    Products and element-wise operations may have one that no array holds, up to LARGEST_PASSING.
    """
    if op in SAME:
        return shapes[0]
    shape = broadcast(shapes) if op in BROADCASTING else _RULES[op](shapes, attributes)
    check_size(shape, LARGEST_PASSING if op in (*BROADCASTING, "MatMul") else LARGEST_SIZE)
    return shape


def check_size(shape: Shape, largest: int = LARGEST_SIZE) -> None:
    """Raise ValueError for a tensor without elements, or of more than kernels can index."""
    if min(shape, default=1) < 0:
        raise ValueError(f"a tensor {list(shape)}; no size may be negative")
    if not 1 <= math.prod(shape) <= largest:
        raise ValueError(
            f"a tensor {list(shape)} of {math.prod(shape)} elements; 1 to {largest} are supported"
        )


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Numpy's broadcast of several shapes."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        large = {size for size in sizes if size != 1}
        if len(large) > 1:
            raise ValueError(f"shapes {[list(s) for s in shapes]} do not broadcast")
        result.append(large.pop() if large else 1)
    return tuple(result)


def _windows(shape: Shape, window: Shape, attributes: Mapping[str, Any]) -> Shape:
    top, left, bottom, right = attributes["pads"]
    dilations = attributes.get("dilations", (1, 1))
    sizes = []
    edges = (top + bottom, left + right)
    for size, taps, edge, stride, dilation in zip(
        shape[2:], window, edges, attributes["strides"], dilations, strict=True
    ):
        reach = dilation * (taps - 1) + 1
        if size + edge < reach:
            raise ValueError(f"a window of {reach} pixels does not fit in {size + edge}")
        sizes.append((size + edge - reach) // stride + 1)
    check_size((*shape[:2], shape[2] + edges[0], shape[3] + edges[1]))  # kernels may store it
    return tuple(sizes)


def _conv(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    x, weight = shapes[:2]
    if x[1] != weight[1] * attributes["groups"]:
        raise ValueError(
            f"{x[1]} input channels, but weights {list(weight)} in {attributes['groups']} groups"
        )
    if weight[0] % attributes["groups"]:
        raise ValueError(f"{weight[0]} filters do not divide into {attributes['groups']} groups")
    return (x[0], weight[0], *_windows(x, weight[2:], attributes))


def _pool(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    (x,) = shapes
    return (*x[:2], *_windows(x, attributes["window"], attributes))


def _gemm(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    x, weight = shapes[:2]
    if len(x) != 2 or x[1] != weight[1]:
        raise ValueError(f"input {list(x)} does not fit weights {list(weight[::-1])}")
    return (x[0], weight[0])


def _matmul(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    a, b = shapes
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise ValueError(f"matrices {list(a)} and {list(b)} do not multiply")
    return (*broadcast([a[:-2], b[:-2], ()]), a[-2], b[-1])


def _concat(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    axis = attributes["axis"]
    rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(rest) != 1:
        raise ValueError(f"shapes {[list(s) for s in shapes]} differ outside axis {axis}")
    total = sum(shape[axis] for shape in shapes)
    return (*shapes[0][:axis], total, *shapes[0][axis + 1 :])


def _reshape(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    shape = tuple(attributes["shape"])
    if math.prod(shape) != math.prod(shapes[0]):
        raise ValueError(f"{list(shapes[0])} cannot be reshaped to {list(shape)}")
    return shape


def _transpose(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    return tuple(shapes[0][axis] for axis in attributes["perm"])


def _pad(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    edges = zip(shapes[0], attributes["before"], attributes["after"], strict=True)
    return tuple(size + before + after for size, before, after in edges)


def _slice(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    bounds = zip(attributes["starts"], attributes["ends"], attributes["steps"], strict=True)
    return tuple(len(range(*bound)) for bound in bounds)


def _expand(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    shape = tuple(attributes["shape"])
    if broadcast([shapes[0], shape]) != shape:
        raise ValueError(f"{list(shapes[0])} does not broadcast to {list(shape)}")
    return shape


def _gather(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    x, indices = shapes
    axis = attributes["axis"]
    return (*x[:axis], *indices, *x[axis + 1 :])


def _take(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """`indices` of an operation; a primitive has them as arguments, each [..., size]."""
    indices = attributes.get("indices") or ()
    sizes = [array.shape[-1] for array in indices] or [shape[-1] for shape in shapes[1:]]
    sizes = sizes if len(sizes) == len(attributes["axes"]) else sizes[::2]
    new = dict(zip(attributes["axes"], sizes, strict=True))
    return tuple(new.get(axis, size) for axis, size in enumerate(shapes[0]))


def _reduced(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    return tuple(1 if i in attributes["axes"] else size for i, size in enumerate(shapes[0]))


def _unrolled(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    channels, window = attributes["axis"], attributes["window"]
    n, c, h, w = (shapes[0][axis] for axis in _image_axes(channels))
    rows, columns = _windows((n, c, h, w), window, attributes)
    deep = c * math.prod(window)
    return (n, deep, rows, columns) if channels == 1 else (n, rows, columns, deep)


def _image_axes(channels: int) -> tuple[int, int, int, int]:
    """Where batch, channels, rows and columns of an image lie, the channels at axis 1 or 3."""
    return (0, 1, 2, 3) if channels == 1 else (0, 3, 1, 2)


_RULES = {
    "Conv": _conv,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Concat": _concat,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Pad": _pad,
    "Slice": _slice,
    "ReduceMean": _reduced,
    "ReduceMax": _reduced,
    "Windows": _unrolled,
    "ReduceSum": _reduced,
    "Expand": _expand,
    "Gather": _gather,
    "Take": _take,
    "Interpolate": _take,
}
