"""Operators that take elements at given places or put them there: gathers and scatters.

Places that a run gives are computed in int32. A kernel clamps what lies outside, where onnxruntime
refuses to run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.layout import emit_slice, normal_axis
from autoq.frontend.registry import OnnxNode, importer
from autoq.graph.shapes import Shape

_MOST_ROUNDS = 64
"""Updates of one element that a scatter may add up."""

_REDUCTIONS = {"add": "Add", "mul": "Mul", "min": "Min", "max": "Max"}


@importer("Gather")
def gather(node: OnnxNode, b: GraphBuilder) -> str:
    """Slices of one axis: of constant indices at equal distances a Slice."""
    x, given = node.required(0, b), node.required(1, b)
    shape = b.shape(x)
    axis = normal_axis(b, int(node.attributes.get("axis", 0)), len(shape))
    if given not in b.graph.constants:
        return b.emit("Gather", [x, integers(b, given)], b.dtype(x), axis=axis)
    places = _inside(b, b.constant(given, "indices"), shape[axis], axis)
    indices = places.reshape(-1).tolist()
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    whole = (*shape[:axis], *places.shape, *shape[axis + 1 :])
    if step and indices == list(range(indices[0], indices[0] + step * len(indices), step)):
        bounds = [(0, extent, 1) for extent in shape]
        bounds[axis] = (indices[0], indices[-1] + (1 if step > 0 else -1), step)
        y = emit_slice(b, x, bounds)
    else:
        y = emit_take(b, x, {axis: places.reshape(-1)})
    return _reshaped(b, y, whole)


def emit_take(b: GraphBuilder, x: str, places: dict[int, np.ndarray]) -> str:
    """Elements of `x` at constant places along some axes, all others whole."""
    axes = tuple(sorted(places))
    return b.emit("Take", [x], axes=axes, indices=[places[axis] for axis in axes])


def integers(b: GraphBuilder, name: str) -> str:
    """Indices, of int64 too, as they are computed; raises ModelError for any other type."""
    if b.dtype(name) != "int32":
        raise b.error(f"indices of {b.dtype(name)}; int32 and int64 are supported")
    return name


def _inside(b: GraphBuilder, indices: np.ndarray, size: int, axis: int) -> np.ndarray:
    """Constant indices counted from the front; raises ModelError for one that lies outside."""
    places = np.where(indices < 0, indices + size, indices).astype(np.int64)
    if not places.size or places.min() < 0 or places.max() >= size:
        raise b.error(f"indices {indices.reshape(-1).tolist()!s:.60} of {size} along axis {axis}")
    return places


def _reshaped(b: GraphBuilder, x: str, shape: Sequence[int]) -> str:
    return x if b.shape(x) == tuple(shape) else b.emit("Reshape", [x], shape=tuple(shape))


def _strides(shape: Sequence[int]) -> list[int]:
    """Elements from one index of each axis to the next."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _offsets(shape: Shape, strides: Sequence[int], without: int | None = None) -> np.ndarray:
    """For each index of a shape the sum of its parts times strides, one axis left out."""
    total = np.zeros(shape, np.int64)
    for axis, stride in enumerate(strides):
        if axis != without:
            total += np.arange(shape[axis]).reshape(-1, *(1,) * (len(shape) - axis - 1)) * stride
    return total


def _place(b: GraphBuilder, indices: str, size: int, stride: int) -> str:
    """Indices of a run along an axis, from either end, as a distance in elements, int32."""
    behind = b.emit("Add", [indices, b.add_constant(np.int32(size))])
    negative = b.emit("Greater", [b.add_constant(np.int32(0)), indices], "float32")
    place = b.emit("Where", [negative, behind, indices], "int32")
    return place if stride == 1 else b.emit("Mul", [place, b.add_constant(np.int32(stride))])


@importer("GatherElements")
def gather_elements(node: OnnxNode, b: GraphBuilder) -> str:
    """For each index the element whose place along an axis it is."""
    x, given = node.required(0, b), node.required(1, b)
    shape, wanted = b.shape(x), b.shape(given)
    axis = normal_axis(b, int(node.attributes.get("axis", 0)), len(shape))
    fits = len(wanted) == len(shape) and all(
        i == axis or size <= shape[i] for i, size in enumerate(wanted)
    )
    if not fits:
        raise b.error(f"indices {list(wanted)} of {list(shape)} along axis {axis}")
    strides = _strides(shape)
    flat = _reshaped(b, x, (math.prod(shape),))
    offsets = _offsets(wanted, strides, axis)
    if given in b.graph.constants:
        places = _inside(b, b.constant(given, "indices"), shape[axis], axis) * strides[axis]
        y = emit_take(b, flat, {0: (places + offsets).reshape(-1)})
        return _reshaped(b, y, wanted)
    place = _place(b, integers(b, given), shape[axis], strides[axis])
    place = b.emit("Add", [place, b.add_constant(offsets.astype(np.int32))])
    return b.emit("Gather", [flat, place], b.dtype(x), axis=0)


@importer("GatherND")
def gather_nd(node: OnnxNode, b: GraphBuilder) -> str:
    """For each tuple of indices what lies at that place of the axes behind `batch_dims`."""
    x, given = node.required(0, b), node.required(1, b)
    shape, wanted = b.shape(x), b.shape(given)
    batch = int(node.attributes.get("batch_dims", 0))
    depth = wanted[-1] if wanted else 0
    if not 0 < depth <= len(shape) - batch or wanted[:batch] != shape[:batch]:
        raise b.error(f"indices {list(wanted)} of {list(shape)} behind {batch} axes of batches")
    end = batch + depth
    strides = _strides(shape[:end])
    rows = _reshaped(b, x, (math.prod(shape[:end]), *shape[end:]))
    offsets = _offsets(wanted[:-1], strides[:batch])
    if given in b.graph.constants:
        columns = np.moveaxis(b.constant(given, "indices"), -1, 0)
        sizes = enumerate(shape[batch:end], batch)
        places = [
            _inside(b, column, size, axis) * strides[axis]
            for column, (axis, size) in zip(columns, sizes, strict=True)
        ]
        y = emit_take(b, rows, {0: (sum(places) + offsets).reshape(-1)})
        return _reshaped(b, y, (*wanted[:-1], *shape[end:]))
    total = b.add_constant(offsets.astype(np.int32))
    for column in range(depth):
        axis = batch + column
        bounds = [(0, size, 1) for size in wanted[:-1]] + [(column, column + 1, 1)]
        indices = _reshaped(b, emit_slice(b, integers(b, given), bounds), wanted[:-1])
        total = b.emit("Add", [_place(b, indices, shape[axis], strides[axis]), total])
    return b.emit("Gather", [rows, total], b.dtype(x), axis=0)


@importer("ScatterND")
def scatter_nd(node: OnnxNode, b: GraphBuilder) -> str:
    """Updates in place of what lies at constant tuples of indices, or joined with it."""
    x, updates = node.required(0, b), node.required(2, b)
    shape = b.shape(x)
    indices = _constant_indices(node, b)
    depth = indices.shape[-1] if indices.ndim else 0
    rest = shape[depth:]
    if not 0 < depth <= len(shape) or b.shape(updates) != (*indices.shape[:-1], *rest):
        raise b.error(f"indices {list(indices.shape)} and updates {list(b.shape(updates))}")
    strides = _strides(shape[:depth])
    columns = np.moveaxis(indices, -1, 0).reshape(depth, -1)
    places = sum(
        _inside(b, column, size, axis) * strides[axis]
        for axis, (column, size) in enumerate(zip(columns, shape[:depth], strict=True))
    )
    flat = _reshaped(b, updates, (len(places), *rest))
    return _scattered(node, b, x, flat, places, shape[:depth])


@importer("ScatterElements", "Scatter")
def scatter_elements(node: OnnxNode, b: GraphBuilder) -> str:
    """Updates in place of elements whose place along an axis is a constant index, or joined."""
    x, updates = node.required(0, b), node.required(2, b)
    shape = b.shape(x)
    indices = _constant_indices(node, b)
    axis = normal_axis(b, int(node.attributes.get("axis", 0)), len(shape))
    if indices.ndim != len(shape) or b.shape(updates) != indices.shape:
        raise b.error(f"indices {list(indices.shape)} and updates {list(b.shape(updates))}")
    strides = _strides(shape)
    places = _inside(b, indices, shape[axis], axis) * strides[axis]
    places = (places + _offsets(indices.shape, strides, axis)).reshape(-1)
    return _scattered(node, b, x, _reshaped(b, updates, (len(places),)), places, shape)


def _constant_indices(node: OnnxNode, b: GraphBuilder) -> np.ndarray:
    name = node.required(1, b)
    if name not in b.graph.constants:
        raise b.error(
            "indices that a run gives; give indices as constants, or choose by a Where of them"
        )
    return b.constant(name, "indices")


def _scattered(
    node: OnnxNode, b: GraphBuilder, x: str, updates: str, places: np.ndarray, outer: Shape
) -> str:
    """Rows of `updates` put at places of the axes `outer` of `x`, in rounds for equal places."""
    reduction = node.attributes.get("reduction", "none")
    if reduction != "none" and reduction not in _REDUCTIONS:
        raise b.error(f"reduction {reduction!r}; none, {', '.join(_REDUCTIONS)} are supported")
    if b.dtype(updates) != b.dtype(x):
        raise b.error(f"updates of {b.dtype(updates)} for {b.dtype(x)}; both have one type")
    shape, y = b.shape(x), x
    for chosen in _rounds(places, math.prod(outer), reduction == "none"):
        if len(chosen) > 1 and b.shape(updates)[1:] != shape[len(outer) :]:
            raise b.error(f"updates {list(b.shape(updates))} of {list(shape)}")
        new = _reshaped(b, emit_take(b, updates, {0: np.maximum(chosen, 0)}), shape)
        if reduction != "none":
            new = b.emit(_REDUCTIONS[reduction], [y, new])
        if np.all(chosen >= 0):
            y = new
            continue
        mask = (chosen >= 0).astype(np.float32).reshape(*outer, *(1,) * (len(shape) - len(outer)))
        y = b.emit("Where", [b.add_constant(mask), new, y], b.dtype(x))
    if y == x:
        raise b.error("no indices; remove the node")
    return y


def _rounds(places: np.ndarray, size: int, last_only: bool) -> list[np.ndarray]:
    """For each round the update [size] of every place, -1 without one.

    Each update is in one round, or only the last of a place in the only one.
    """
    order = np.arange(len(places))
    if last_only:
        chosen = np.full(size, -1, np.int64)
        chosen[places] = order
        return [chosen]
    rounds = []
    while len(order) and len(rounds) < _MOST_ROUNDS:
        _, first = np.unique(places[order], return_index=True)
        chosen = np.full(size, -1, np.int64)
        chosen[places[order[first]]] = order[first]
        rounds.append(chosen)
        order = np.delete(order, first)
    if len(order):
        raise ValueError(f"more than {_MOST_ROUNDS} updates of one element")
    return rounds
