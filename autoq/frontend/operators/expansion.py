"""Operators that repeat values or lay masks over them: Expand, Tile, Trilu, OneHot."""

from __future__ import annotations

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.layout import normal_axis
from autoq.frontend.registry import OnnxNode, importer
from autoq.graph.shapes import broadcast


@importer("Expand")
def expand(node: OnnxNode, b: GraphBuilder) -> str:
    """Numpy's broadcast with a constant shape."""
    x = node.required(0, b)
    wanted = tuple(_sizes(b, node.required(1, b), "shape"))
    return emit_expand(b, x, broadcast([b.shape(x), wanted]))


def _sizes(b: GraphBuilder, name: str, role: str) -> list[int]:
    """A constant of integers."""
    value = b.constant(name, role)
    if value.dtype.kind not in "iu":
        raise b.error(f"{role} of {value.dtype}; integers are expected")
    return value.reshape(-1).tolist()


def emit_expand(b: GraphBuilder, x: str, shape: tuple[int, ...]) -> str:
    """`x` itself where it has the shape already."""
    return x if b.shape(x) == shape else b.emit("Expand", [x], shape=shape)


@importer("Tile")
def tile(node: OnnxNode, b: GraphBuilder) -> str:
    """Constant repeats of each axis."""
    x = node.required(0, b)
    shape = b.shape(x)
    repeats = _sizes(b, node.required(1, b), "repeats")
    if len(repeats) != len(shape) or min(repeats, default=1) < 1:
        raise b.error(f"repeats {repeats} of {len(shape)} axes; each is at least 1")
    if set(repeats) <= {1}:
        return x
    apart = tuple(part for size in shape for part in (1, size))
    pairs = zip(repeats, shape, strict=True)
    spread = tuple(part for repeat, size in pairs for part in (repeat, size))
    y = emit_expand(b, b.emit("Reshape", [x], shape=apart), spread)
    whole = tuple(size * repeat for size, repeat in zip(shape, repeats, strict=True))
    return b.emit("Reshape", [y], shape=whole)


@importer("Trilu")
def trilu(node: OnnxNode, b: GraphBuilder) -> str:
    """The upper or lower triangle of matrices, 0 elsewhere."""
    x = node.required(0, b)
    shape = b.shape(x)
    if len(shape) < 2:
        raise b.error(f"an input {list(shape)}; matrices are supported")
    k = 0 if node.input(1) is None else int(b.constant(node.required(1, b), "k").reshape(()))
    ones = np.ones(shape[-2:], np.float32)
    mask = np.triu(ones, k) if node.flag("upper", b, True) else np.tril(ones, k)
    zero = b.add_constant(np.zeros((), b.dtype(x)))
    return b.emit("Where", [b.add_constant(mask), x, zero], b.dtype(x))


@importer("OneHot")
def one_hot(node: OnnxNode, b: GraphBuilder) -> str:
    """The second of two values where an index is, the first elsewhere."""
    indices = node.required(0, b)
    depth = int(b.constant(node.required(1, b), "depth").reshape(()))
    off, on = b.constant(node.required(2, b), "values").reshape(-1)
    if depth < 1:
        raise b.error(f"depth {depth}; at least 1 is supported")
    shape = b.shape(indices)
    axis = normal_axis(b, int(node.attributes.get("axis", -1)), len(shape) + 1)
    number = np.dtype(b.dtype(indices)).type
    wide = b.emit("Reshape", [indices], shape=(*shape[:axis], 1, *shape[axis:]))
    places = np.arange(depth).reshape(-1, *(1,) * (len(shape) - axis)).astype(number)
    found = [
        b.emit("Equal", [wide, b.add_constant(p)], "float32") for p in (places, places - depth)
    ]
    chosen = b.emit("Max", found)
    on, off = b.computed(b.add_constant(on)), b.computed(b.add_constant(off))
    return b.emit("Where", [chosen, on, off], b.dtype(on))
