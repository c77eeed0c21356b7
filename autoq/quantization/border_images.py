"""Constant images behind padded convolutions, which quantisation leaves in float32.

Pruning adds one where it takes constant channels out of a convolution's input: what they add
differs at the image's borders. Kernels add it to the convolution's sums, before they are rounded to
bytes; with a quantisation between, the addition would be a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.shape_inference
from onnx import numpy_helper

from autoq.pruning.border_kinds import border_kinds
from autoq.templates.borders.classes import by_class


def border_additions(model: onnx.ModelProto) -> list[str]:
    """The names of Add nodes that add an image of borders to a Conv; they get one without."""
    graph = model.graph
    images = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) >= 3}
    convolutions = {node.output[0]: node for node in graph.node if node.op_type == "Conv"}
    adds = [
        (node, *names)
        for node in graph.node
        if node.op_type == "Add"
        for names in (node.input, reversed(node.input))
    ]
    adds = [(node, y, image) for node, y, image in adds if y in convolutions and image in images]
    if not adds:
        return []
    shapes = _shapes(model)
    outputs = {value.name for value in graph.output}
    read = [name for node in graph.node for name in node.input]
    found = []
    for index, (node, y, image) in enumerate(adds):
        alone = read.count(y) == 1 and y not in outputs
        conv = convolutions[y]
        if alone and _of_borders(conv, shapes, numpy_helper.to_array(images[image])):
            node.name = node.name or f"{y}/border{index}"
            found.append(node.name)
    return found


def _shapes(model: onnx.ModelProto) -> dict[str, list[int]]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    found = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.value_info, *graph.input, *graph.output):
        found[value.name] = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    return found


def _of_borders(conv: onnx.NodeProto, shapes: dict[str, list[int]], image: np.ndarray) -> bool:
    """Whether an image is the same wherever the same taps of a convolution meet the input."""
    taps, x = shapes.get(conv.input[1], [])[2:], shapes.get(conv.input[0], [])
    if len(taps) != 2 or len(x) != 4 or min(x[2:]) < 1:
        return False
    kinds = border_kinds(conv, taps, x[2:])
    if kinds is None or kinds.alike:
        return False
    rows, columns = kinds.places
    if image.shape[-2:] != (len(rows), len(columns)) or image.size != image[..., 0, 0].size * (
        len(rows) * len(columns)
    ):
        return False
    return by_class(image, rows, columns) is not None


def unrounded_before(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Let these Add nodes of a QDQ model read convolutions as they are, not quantised first."""
    graph = model.graph
    producers = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        if node.name not in names:
            continue
        for place, name in enumerate(node.input):
            late = producers.get(name)
            early = producers.get(late.input[0]) if late is not None else None
            if late is not None and early is not None and early.op_type == "QuantizeLinear":
                node.input[place] = early.input[0]
    _drop_unread(graph)


def _drop_unread(graph: onnx.GraphProto) -> None:
    """Take out quantisations that nothing reads, and constants that are read no more."""
    while True:
        read = {name for node in graph.node for name in node.input}
        read |= {value.name for value in graph.output}
        unread = [
            node
            for node in graph.node
            if node.op_type in ("QuantizeLinear", "DequantizeLinear")
            and not read.intersection(node.output)
        ]
        if not unread:
            break
        for node in unread:
            graph.node.remove(node)
    for tensor in [one for one in graph.initializer if one.name not in read]:
        graph.initializer.remove(tensor)
