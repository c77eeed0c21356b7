"""Operators that move values without computing: reshapes, transposes, concatenation, slices."""

from __future__ import annotations

import itertools
import math

import numpy as np

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.operators.qdq import dequantise_blocks
from autoq.frontend.registry import OnnxNode, importer
from autoq.graph.shapes import LARGEST_INPUTS


def normal_axis(b: GraphBuilder, axis: int, rank: int) -> int:
    """`axis` counted from the front; raises ModelError where it does not exist."""
    if not -rank <= axis < rank:
        raise b.error(f"axis {axis} of {rank} axes")
    return axis % rank if rank else 0


def constant_axes(
    node: OnnxNode, b: GraphBuilder, rank: int, index: int = 1, usual: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """The `axes` attribute, or the constant input that newer opsets have, or `usual`; sorted."""
    axes = node.attributes.get("axes")
    name = node.input(index)
    if axes is None and name is not None:
        axes = b.constant(name, "axes").reshape(-1).tolist()
    axes = usual if axes is None else axes
    found = sorted(normal_axis(b, int(axis), rank) for axis in axes)
    if len(set(found)) != len(found):
        raise b.error(f"axes {list(axes)} of {rank}: one is named twice")
    return tuple(found)


@importer("Identity")
def identity(node: OnnxNode, b: GraphBuilder) -> str:
    """The input itself."""
    return node.required(0, b)


@importer("Dropout")
def dropout(node: OnnxNode, b: GraphBuilder) -> str:
    """The input itself: inference drops nothing."""
    if len(node.outputs) > 1 and node.outputs[1] in b.used:
        raise b.error("its mask is used; remove the use before importing")
    training, ratio = node.input(2), node.input(1)
    drops = ratio is None or np.any(b.constant(ratio, "ratio"))
    if training is not None and np.any(b.constant(training, "training_mode")) and drops:
        raise b.error("it drops values at random; export the model for inference")
    return node.required(0, b)


@importer("Reshape")
def reshape(node: OnnxNode, b: GraphBuilder) -> str:
    """A static shape, 0 and -1 resolved."""
    x = node.required(0, b)
    old = b.shape(x)
    if "shape" in node.attributes:
        wanted = list(node.attributes["shape"])
    else:
        wanted = [int(v) for v in b.constant(node.required(1, b), "shape").reshape(-1)]
    if not node.flag("allowzero", b):
        wanted = [old[i] if size == 0 and i < len(old) else size for i, size in enumerate(wanted)]
    if wanted.count(-1) > 1:
        raise b.error(f"shape {wanted}: at most one -1 is allowed")
    if -1 in wanted:
        known = math.prod(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = math.prod(old) // known if known else 0
    return b.emit("Reshape", [x], shape=tuple(wanted))


@importer("Flatten")
def flatten(node: OnnxNode, b: GraphBuilder) -> str:
    """Two axes."""
    x = node.required(0, b)
    shape = b.shape(x)
    axis = int(node.attributes.get("axis", 1))
    axis = len(shape) if axis == len(shape) else normal_axis(b, axis, len(shape))
    flat = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    return b.emit("Reshape", [x], shape=flat)


@importer("Squeeze")
def squeeze(node: OnnxNode, b: GraphBuilder) -> str:
    """Axes of one element removed."""
    x = node.required(0, b)
    shape = b.shape(x)
    axes = constant_axes(node, b, len(shape))
    if not axes:
        axes = tuple(i for i, size in enumerate(shape) if size == 1)
    return b.emit("Reshape", [x], shape=tuple(s for i, s in enumerate(shape) if i not in axes))


@importer("Unsqueeze")
def unsqueeze(node: OnnxNode, b: GraphBuilder) -> str:
    """Axes of one element added."""
    x = node.required(0, b)
    raw = node.attributes.get("axes")
    if raw is None:
        raw = b.constant(node.required(1, b), "axes").reshape(-1).tolist()
    rank = len(b.shape(x)) + len(raw)
    axes = {normal_axis(b, int(axis), rank) for axis in raw}
    if len(axes) != len(raw):
        raise b.error(f"axes {list(raw)} of {rank}: one is named twice")
    rest = iter(b.shape(x))
    return b.emit("Reshape", [x], shape=tuple(1 if i in axes else next(rest) for i in range(rank)))


@importer("Transpose")
def transpose(node: OnnxNode, b: GraphBuilder) -> str:
    """Axes permuted."""
    x = node.required(0, b)
    rank = len(b.shape(x))
    perm = tuple(node.attributes.get("perm", range(rank - 1, -1, -1)))
    if sorted(perm) != list(range(rank)):
        raise b.error(f"perm {list(perm)} of {rank} axes")
    return emit_transposed(b, x) if perm == (1, 0) else b.emit("Transpose", [x], perm=perm)


def emit_transposed(b: GraphBuilder, weight: str) -> str:
    """A matrix with its axes exchanged; of a dequantised constant by blocks, the constant's."""
    node = b.producer(weight)
    if node is None or node.op != "DequantizeBlocks":
        return b.emit("Transpose", [weight], perm=(1, 0))
    a = node.attributes
    integers = b.emit("Transpose", [node.inputs[0]], perm=(1, 0))
    scale, zero_point = (np.ascontiguousarray(a[n].T) for n in ("scale", "zero_point"))
    return dequantise_blocks(b, integers, scale, zero_point, 1 - a["axis"], a["block"])


@importer("Concat")
def concat(node: OnnxNode, b: GraphBuilder) -> str:
    """Concatenation along any axis."""
    inputs = [node.required(index, b) for index in range(len(node.inputs))]
    axis = normal_axis(b, int(node.attributes["axis"]), len(b.shape(inputs[0])))
    return emit_concat(b, inputs, axis)


def emit_concat(b: GraphBuilder, parts: list[str], axis: int) -> str:
    """A Concat of any number of parts, joined in groups that a kernel can read."""
    while len(parts) > 1:
        groups = [parts[i : i + LARGEST_INPUTS] for i in range(0, len(parts), LARGEST_INPUTS)]
        parts = [g[0] if len(g) == 1 else b.emit("Concat", g, axis=axis) for g in groups]
    return parts[0]


@importer("Slice")
def slice_(node: OnnxNode, b: GraphBuilder) -> str:
    """Constant starts, ends, axes and steps."""
    x = node.required(0, b)
    shape = b.shape(x)
    names = ("starts", "ends", "axes", "steps")
    given: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        if name in node.attributes:
            given[name] = list(node.attributes[name])
        elif node.input(index + 1) is not None:
            given[name] = b.constant(node.required(index + 1, b), name).reshape(-1).tolist()
    axes = given.get("axes", list(range(len(given["starts"]))))
    steps = given.get("steps", [1] * len(axes))
    bounds = [(0, size, 1) for size in shape]
    for start, end, axis, step in zip(given["starts"], given["ends"], axes, steps, strict=True):
        axis = normal_axis(b, axis, len(shape))
        bounds[axis] = slice(start, end, step).indices(shape[axis])
        if len(range(*bounds[axis])) == 1:
            first = bounds[axis][0]
            bounds[axis] = (first, first + 1, 1)
    return emit_slice(b, x, bounds)


def emit_slice(b: GraphBuilder, x: str, bounds: list[tuple[int, int, int]]) -> str:
    """A Slice of (start, end, step) of every axis."""
    starts, ends, steps = (tuple(column) for column in zip(*bounds, strict=True))
    return b.emit("Slice", [x], starts=starts, ends=ends, steps=steps)


@importer("Split")
def split(node: OnnxNode, b: GraphBuilder) -> list[str]:
    """One Slice a part."""
    x = node.required(0, b)
    shape = b.shape(x)
    axis = normal_axis(b, int(node.attributes.get("axis", 0)), len(shape))
    sizes = node.attributes.get("split")
    if sizes is None and node.input(1) is not None:
        sizes = b.constant(node.required(1, b), "split").reshape(-1).tolist()
    if sizes is None:
        part = -(-shape[axis] // len(node.outputs))
        sizes = [part] * (len(node.outputs) - 1)
        sizes.append(shape[axis] - sum(sizes))
    if sum(sizes) != shape[axis] or len(sizes) != len(node.outputs):
        raise b.error(f"parts {list(sizes)} of {shape[axis]}")
    edges = np.cumsum([0, *sizes]).tolist()
    parts = []
    for start, end in itertools.pairwise(edges):
        bounds = [(0, size, 1) for size in shape]
        bounds[axis] = (start, end, 1)
        parts.append(emit_slice(b, x, bounds))
    return parts
