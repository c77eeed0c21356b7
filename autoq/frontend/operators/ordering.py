"""TopK: the largest elements along an axis, found by counting what comes before each element."""

from __future__ import annotations

import math

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.layout import normal_axis
from autoq.frontend.registry import OnnxNode, importer

_MOST_COMPARISONS = 2**28
"""Pairs of elements that are compared: 1 GiB where a GPU keeps what they say."""


@importer("TopK")
def top_k(node: OnnxNode, b: GraphBuilder) -> list[str]:
    """The k largest or smallest elements in order, of equal ones the first, and their places."""
    x = node.required(0, b)
    if (b.dtype(x) == "int32" and b.type_of_input(0) != "int64") or b.dtype(x) not in _ORDERED:
        raise b.error(f"an input of {b.dtype(x)}; floats and int64 are supported: cast it")
    shape = b.shape(x)
    axis = normal_axis(b, int(node.attributes.get("axis", -1)), len(shape))
    size = shape[axis]
    if b.opset < 10:
        k = int(node.attributes["k"])
    else:
        k = int(b.constant(node.required(1, b), "k").reshape(()))
    if not 0 < k <= size:
        raise b.error(f"k {k} of {size} elements along axis {axis}")
    rows = math.prod(shape) // size
    if rows * size * size > _MOST_COMPARISONS:
        raise b.error(
            f"{size} elements along axis {axis} of {rows} rows, which are compared in pairs; "
            f"{_MOST_COMPARISONS} pairs are supported: cut the model in front of it"
        )
    last = (*(i for i in range(len(shape)) if i != axis), axis)
    turned = b.emit("Transpose", [x], perm=last) if axis != len(shape) - 1 else x
    across = b.emit("Reshape", [turned], shape=(rows, 1, size))
    values, places = _first(b, across, k, node.flag("largest", b, True))
    found = [_back(b, result, last, shape, k) for result in (values, places)]
    return found


_ORDERED = ("float32", "int32")


def _first(b: GraphBuilder, across: str, k: int, largest: bool) -> tuple[str, str]:
    """Values and places [rows, k] of the elements [rows, 1, n] before which less than k come."""
    rows, _, size = b.shape(across)
    down = b.emit("Reshape", [across], shape=(rows, size, 1))
    place = np.arange(size, dtype=np.float32)
    place_across = b.add_constant(place.reshape(1, 1, size))
    place_down = b.add_constant(place.reshape(1, size, 1))
    pair = [across, down] if largest else [down, across]
    before = b.emit("Greater", pair, "float32")
    earlier = b.emit("Greater", [place_down, place_across], "float32")
    equal = b.emit("Equal", [across, down], "float32")
    first = b.emit("Where", [equal, earlier, before], "float32")
    number = b.emit("ReduceSum", [first], axes=(2,))
    numbers = b.emit("Reshape", [number], shape=(rows, 1, size))
    wanted = b.add_constant(np.arange(k, dtype=np.float32).reshape(1, k, 1))
    here = b.emit("Equal", [numbers, wanted], "float32")
    zero = b.add_constant(np.zeros((), b.dtype(across)))
    value = b.emit("Where", [here, across, zero], b.dtype(across))
    values = b.emit("ReduceSum", [value], axes=(2,))
    spot = b.emit("Where", [here, place_across, b.add_constant(np.float32(0))], "float32")
    places = b.emit("Cast", [b.emit("ReduceSum", [spot], axes=(2,))], "int32")
    return values, places


def _back(b: GraphBuilder, y: str, last: tuple[int, ...], shape: tuple[int, ...], k: int) -> str:
    """[rows, k] in the order of the axes of x, whose axis last[-1] was turned to the end."""
    outer = tuple(shape[axis] for axis in last[:-1])
    apart = b.emit("Reshape", [y], shape=(*outer, k))
    if last[-1] == len(shape) - 1:
        return apart
    return b.emit("Transpose", [apart], perm=tuple(int(i) for i in np.argsort(last)))
