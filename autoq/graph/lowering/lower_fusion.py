"""Layouts for fusions: axes and constants follow the buffers that a fusion reads."""

from __future__ import annotations

import numpy as np

from autoq.graph.ir import Fusion, Operation, Primitive
from autoq.graph.lowering.placement import NHWC, PLAIN, TO_NHWC, Placement, to_layout

_PLAIN_ONLY = ("MatMul", "Conv", "Gemm", "MaxPool", "AveragePool", "Gather")
_SELECTIONS = ("Take", "Interpolate")
"""Primitives whose arguments but the first are places along axes, and weights of these."""
_AXIS_TO_NHWC = {0: 0, 1: 3, 2: 1, 3: 2}


def lower_fusion(node: Operation, place: Placement) -> None:
    """Append the fusion for a `fused.primitives`, in the layout that moves the least."""
    graph = place.semantic
    primitives: tuple[Primitive, ...] = node.attributes["primitives"]
    layout = _layout(node, primitives, place)
    inputs = tuple(place.read(name, layout) for name in node.inputs)
    shapes = tuple(to_layout(graph.shape(name), layout) for name in node.inputs)
    places = {at for p in primitives if p.op in _SELECTIONS for at in p.arguments[1:]}
    constants = tuple(
        array if len(node.inputs) + number in places else _constant(array, layout)
        for number, array in enumerate(node.attributes["constants"])
    )
    output = place.write(node.output, layout)
    place.graph.nodes.append(
        Fusion(
            tuple(_in_layout(primitive, layout) for primitive in primitives),
            inputs,
            shapes,
            tuple(graph.dtype(name) for name in node.inputs),
            constants,
            output,
            to_layout(graph.shape(node.output), layout),
            node.covers,
        )
    )


def _layout(node: Operation, primitives: tuple[Primitive, ...], place: Placement) -> str:
    """NHWC where every tensor is an image and one of them is only there channels last.

    Windows are many times as large as what they are made of, and read as rows of a matrix.
    """
    graph = place.semantic
    names = (*node.inputs, node.output)
    if any(len(graph.shape(name)) != 4 for name in names):
        return PLAIN
    if any(primitive.op in _PLAIN_ONLY for primitive in primitives):
        return PLAIN
    if any(p.op in _SELECTIONS and 1 in p["axes"] for p in primitives):
        return PLAIN  # whose arguments are in the order of the axes
    if any(array.ndim > 4 for array in node.attributes["constants"]):
        return PLAIN
    if any(primitive.op == "Windows" for primitive in primitives):
        return NHWC
    return NHWC if any(not place.has(name, PLAIN) for name in node.inputs) else PLAIN


def _constant(array: np.ndarray, layout: str) -> np.ndarray:
    if layout == PLAIN or array.size == 1:
        return array
    full = array.reshape((1,) * (4 - array.ndim) + array.shape)
    return np.ascontiguousarray(full.transpose(TO_NHWC))


def _in_layout(primitive: Primitive, layout: str) -> Primitive:
    """The primitive with its axes renamed."""
    if layout == PLAIN:
        return primitive
    attributes = dict(primitive.attributes)
    if "axis" in attributes:
        attributes["axis"] = _AXIS_TO_NHWC[attributes["axis"]]
    if "axes" in attributes:
        attributes["axes"] = tuple(sorted(_AXIS_TO_NHWC[axis] for axis in attributes["axes"]))
    for name in ("before", "after", "starts", "ends", "steps", "shape"):
        if name in attributes:
            attributes[name] = to_layout(tuple(attributes[name]), NHWC)
    if "perm" in attributes:  # logical output axis i reads logical axis perm[i]; both are stored
        perm = attributes["perm"]
        attributes["perm"] = tuple(_AXIS_TO_NHWC[perm[axis]] for axis in TO_NHWC)
    return Primitive(
        primitive.op, primitive.arguments, primitive.dtype, tuple(sorted(attributes.items()))
    )
