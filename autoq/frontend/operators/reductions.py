"""Sums, maxima and norms over axes, the places of extremes, and running sums."""

from __future__ import annotations

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.layout import constant_axes, normal_axis
from autoq.frontend.operators.pooling import emit_global_average
from autoq.frontend.registry import OnnxNode, importer

_SUMMED = ("float32", "int32")
_LARGEST_PLACE = 2**24
"""Places that float32 tells apart."""
_LONGEST = 4096
"""Elements of a running sum, which takes a matrix of as many rows and columns."""


def _axes(node: OnnxNode, b: GraphBuilder, x: str) -> tuple[int, ...]:
    """The axes to reduce; all of them where none are given, unless the node says none."""
    rank = len(b.shape(x))
    axes = constant_axes(node, b, rank)
    if axes or node.flag("noop_with_empty_axes", b):
        return axes
    return tuple(range(rank))


def _kept(node: OnnxNode, b: GraphBuilder, y: str, axes: tuple[int, ...]) -> str:
    """A result with the axes of one element that the node keeps."""
    if not axes or node.flag("keepdims", b, True):
        return y
    shape = b.shape(y)
    return b.emit("Reshape", [y], shape=tuple(s for i, s in enumerate(shape) if i not in axes))


def _reduced(b: GraphBuilder, op: str, x: str, axes: tuple[int, ...]) -> str:
    if b.dtype(x) not in _SUMMED:
        raise b.error(f"an input of {b.dtype(x)}; {', '.join(_SUMMED)} are supported")
    return b.emit(op, [x], axes=axes) if axes else x


@importer("ReduceMean")
def reduce_mean(node: OnnxNode, b: GraphBuilder) -> str:
    """Mean over axes; over the pixels of images it is a global average pool."""
    x = node.required(0, b)
    axes = _axes(node, b, x)
    if not axes:
        return x
    if axes == (2, 3) and len(b.shape(x)) == 4:
        return _kept(node, b, emit_global_average(b, x), axes)
    return _kept(node, b, b.emit("ReduceMean", [x], axes=axes), axes)


@importer("ReduceSum", "ReduceMax", "ReduceMin")
def reduce_plain(node: OnnxNode, b: GraphBuilder) -> str:
    """Sum, largest or smallest; NaN is no largest or smallest number."""
    x = node.required(0, b)
    axes = _axes(node, b, x)
    if node.op == "ReduceMin":
        return _kept(node, b, _least(b, x, axes), axes)
    return _kept(node, b, _reduced(b, node.op, x, axes), axes)


def _least(b: GraphBuilder, x: str, axes: tuple[int, ...]) -> str:
    """The smallest: the largest in the opposite order, which for integers is that of -1 - x."""
    if b.dtype(x) == "float32":
        return b.emit("Neg", [_reduced(b, "ReduceMax", b.emit("Neg", [x]), axes)])
    last = b.add_constant(np.int32(-1))
    turned = b.emit("Sub", [last, x])
    return b.emit("Sub", [last, _reduced(b, "ReduceMax", turned, axes)])


@importer("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
def reduce_function(node: OnnxNode, b: GraphBuilder) -> str:
    """A sum of a function of the elements, or a function of a sum."""
    x = node.required(0, b)
    axes = _axes(node, b, x)
    if node.op == "ReduceLogSumExp":
        return _kept(node, b, _log_sum_of_powers(b, x, axes), axes)
    terms = x
    if node.op == "ReduceL1":
        terms = b.emit("Abs", [x])
    elif node.op in ("ReduceL2", "ReduceSumSquare"):
        terms = b.emit("Mul", [x, x])
    total = _reduced(b, "ReduceSum", terms, axes)
    if node.op == "ReduceL2":
        total = b.emit("Sqrt", [total])
    elif node.op == "ReduceLogSum":
        total = b.emit("Log", [total])
    return _kept(node, b, total, axes)


def _log_sum_of_powers(b: GraphBuilder, x: str, axes: tuple[int, ...]) -> str:
    """The sum is of powers of differences to the largest, which do not overflow."""
    largest = _reduced(b, "ReduceMax", x, axes)
    powers = b.emit("Exp", [b.emit("Sub", [x, largest])])
    return b.emit("Add", [b.emit("Log", [_reduced(b, "ReduceSum", powers, axes)]), largest])


@importer("LogSoftmax")
def log_softmax(node: OnnxNode, b: GraphBuilder) -> str:
    """The logarithm of a Softmax: over one axis (opset 13), or all axes from one on (before)."""
    x = node.required(0, b)
    rank = len(b.shape(x))
    axis = normal_axis(b, int(node.attributes.get("axis", 1 if b.opset < 13 else -1)), rank)
    axes = (axis,) if b.opset >= 13 else tuple(range(axis, rank))
    centred = b.emit("Sub", [x, _reduced(b, "ReduceMax", x, axes)])
    total = _reduced(b, "ReduceSum", b.emit("Exp", [centred]), axes)
    return b.emit("Sub", [centred, b.emit("Log", [total])])


@importer("ArgMax", "ArgMin")
def arg_extreme(node: OnnxNode, b: GraphBuilder) -> str:
    """The first or last place of the largest or smallest element along an axis."""
    x = node.required(0, b)
    shape = b.shape(x)
    axis = normal_axis(b, int(node.attributes.get("axis", 0)), len(shape))
    size = shape[axis]
    if size > _LARGEST_PLACE:
        raise b.error(f"{size} elements along axis {axis}; {_LARGEST_PLACE} are supported")
    axes = (axis,)
    if b.dtype(x) in ("int8", "uint8"):
        x = b.emit("Cast", [x], "int32")
    extreme = _least(b, x, axes) if node.op == "ArgMin" else _reduced(b, "ReduceMax", x, axes)
    sign = 1.0 if node.flag("select_last_index", b) else -1.0
    places = sign * np.arange(size, dtype=np.float32).reshape(-1, *(1,) * (len(shape) - axis - 1))
    none = b.add_constant(np.float32(-size))
    here = b.emit("Equal", [x, extreme], "float32")
    found = b.emit("Where", [here, b.add_constant(places.astype(np.float32)), none], "float32")
    most = b.emit("ReduceMax", [found], axes=axes)
    place = b.emit("Cast", [most if sign > 0 else b.emit("Neg", [most])], "int32")
    return _kept(node, b, place, axes)


@importer("CumSum")
def cum_sum(node: OnnxNode, b: GraphBuilder) -> str:
    """Running sums along an axis: a product with a triangle of ones, of integers a sum of terms."""
    x = node.required(0, b)
    shape = b.shape(x)
    axis = normal_axis(b, int(b.constant(node.required(1, b), "axis").reshape(())), len(shape))
    size = shape[axis]
    if size > _LONGEST:
        raise b.error(f"{size} elements along axis {axis}; {_LONGEST} are supported")
    exclusive, backwards = node.flag("exclusive", b), node.flag("reverse", b)
    summed = np.tri(size, size, -1 if exclusive else 0)  # of each row, which columns
    summed = summed[::-1, ::-1] if backwards else summed
    if b.dtype(x) == "int32":
        behind = (1,) * (len(shape) - axis - 1)
        terms = b.emit("Reshape", [x], shape=(*shape[:axis], 1, size, *shape[axis + 1 :]))
        mask = b.add_constant(summed.astype(np.int32).reshape(size, size, *behind))
        total = b.emit("ReduceSum", [b.emit("Mul", [terms, mask])], axes=(axis + 1,))
        return b.emit("Reshape", [total], shape=shape)
    columns = (int(np.prod(shape[:axis])), size, int(np.prod(shape[axis + 1 :])))
    parts = b.emit("Reshape", [x], shape=columns)
    matrix = b.add_constant(np.ascontiguousarray(summed, np.float32)[None])
    matrices = b.emit("Expand", [matrix], shape=(columns[0], size, size))
    return b.emit("Reshape", [b.emit("MatMul", [matrices, parts], "float32")], shape=shape)
