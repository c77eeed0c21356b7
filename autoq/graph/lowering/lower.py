"""From fused operations (NCHW) to layers over buffers (NHWC).

Convolutions and pools read and write NHWC, so inside a network nothing is transposed; a layout
changes in the quantisation at the input, at most once at the end, and around fusions that need
ONNX's order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autoq.graph.fused import (
    ADD,
    BATCHED,
    CONCAT,
    CONV,
    DEQUANTIZE,
    FUSION,
    GEMM,
    POOL,
    QUANTIZE,
    TABLE,
    WORKLOAD,
)
from autoq.graph.ir import Graph, Layer, Operation
from autoq.graph.lowering.lower_fusion import lower_fusion
from autoq.graph.lowering.placement import (
    NHWC,
    PLAIN,
    TO_NCHW,
    TO_NHWC,
    Placement,
    to_layout,
)
from autoq.graph.rewrite import Neighbourhood
from autoq.templates.operators.add import Add
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.lookup import Lookup
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize


def lower(graph: Graph) -> Graph:
    """Layers and fusions for a graph of fused operations and reshapes."""
    place = Placement(graph)
    around = Neighbourhood(graph)
    for node in graph.operations:
        _LOWERINGS[node.op](node, place, around)
    return place.finish()


def _layer(
    place: Placement, node: Operation, workload: Any, constants: dict[str, Any],
    inputs: tuple[str, ...], layout: str,
) -> None:  # fmt: skip
    ranks = {name: len(place.semantic.shape(name)) for name in node.outputs}
    output, *further = (
        place.write(name, layout if ranks[name] == 4 else PLAIN) for name in node.outputs
    )
    reason = node.attributes.get("float_reason", "")
    values = node.attributes.get("weight_dtype", "")
    place.graph.nodes.append(
        Layer(
            workload, constants, inputs, output, node.covers, reason, values, tuple(further),
            node.attributes.get("precision", ""),
        )
    )  # fmt: skip


def _product_constants(node: Operation, weight: np.ndarray) -> dict[str, Any]:
    a = node.attributes
    constants = {"weight": np.ascontiguousarray(weight), "bias": a["bias"], "scalars": a["scalars"]}
    if a["scale"] is not None:
        constants["scale"] = np.ascontiguousarray(a["scale"], np.float32)
    if a["x_zero_point"] is not None:
        constants["x_zero_point"] = int(a["x_zero_point"])
    if a.get("float_bias") is not None:
        constants["float_bias"] = a["float_bias"]
    return constants


def _conv(node: Operation, place: Placement, around: Neighbourhood) -> None:
    graph, a = place.semantic, node.attributes
    n, c, h, w = graph.shape(node.inputs[0])
    k, _, r, s = a["weight"].shape
    padding, bordered = tuple(a["pads"]), a["bias"].ndim > 1
    workload = Conv2d(
        n, h, w, c, k, r, s, tuple(a["strides"]), padding, tuple(a["dilations"]), a["groups"],
        graph.dtype(node.inputs[0]), a["weight_dtype"],
        zero_point_border=bordered or (bool(a["x_zero_point"]) and any(padding)),
        epilogue=a["epilogue"], border_bias=bordered,
    )  # fmt: skip
    inputs = tuple(place.read(name, NHWC) for name in node.inputs)
    constants = _product_constants(node, a["weight"].transpose(0, 2, 3, 1))
    _layer(place, node, workload, constants, inputs, NHWC)


def _gemm(node: Operation, place: Placement, around: Neighbourhood) -> None:
    graph, weight = place.semantic, node.attributes["weight"]
    x = node.inputs[0]
    if x in place.flat:
        buffer, (c, h, w) = place.flat[x]
        weight = weight.reshape(-1, c, h, w).transpose(0, 2, 3, 1).reshape(len(weight), -1)
    else:
        buffer = place.read(x, PLAIN)
    m, k = graph.shape(x)
    weight_dtype = node.attributes["weight_dtype"]
    workload = Gemm(m, len(weight), k, graph.dtype(x), weight_dtype, node.attributes["epilogue"])
    inputs = (buffer, *(place.read(name, PLAIN) for name in node.inputs[1:]))
    _layer(place, node, workload, _product_constants(node, weight), inputs, PLAIN)


def _batched(node: Operation, place: Placement, around: Neighbourhood) -> None:
    graph, a = place.semantic, node.attributes
    dtypes = (graph.dtype(name) for name in node.inputs[:2])
    workload = BatchedGemm(*a["extents"], *dtypes, *a["orders"], a["epilogue"])
    x_zero_point, other_zero_point = a["zero_points"]
    constants = {"scalars": a["scalars"], "x_zero_point": x_zero_point}
    constants["other_zero_point"] = other_zero_point
    if a["scale"] is not None:
        constants["scale"] = np.array([a["scale"]], np.float32)
    inputs = tuple(place.read(name, PLAIN) for name in node.inputs)
    _layer(place, node, workload, constants, inputs, PLAIN)


def _pool(node: Operation, place: Placement, around: Neighbourhood) -> None:
    graph, a = place.semantic, node.attributes
    n, c, h, w = graph.shape(node.inputs[0])
    r, s = a["window"]
    workload = Pool2d(
        a["kind"], n, h, w, c, r, s, tuple(a["strides"]), tuple(a["pads"]),
        bool(a.get("include_pad", False)), graph.dtype(node.inputs[0]),
        graph.dtype(node.output), a["requantize"],
    )  # fmt: skip
    inputs = (place.read(node.inputs[0], NHWC),)
    _layer(place, node, workload, {"scalars": a["scalars"]}, inputs, NHWC)


def _add(node: Operation, place: Placement, around: Neighbourhood) -> None:
    graph = place.semantic
    shape = graph.shape(node.output)
    plain = len(shape) != 4 or all(
        place.has(name, PLAIN) and not place.has(name, NHWC) for name in node.inputs
    )
    layout = PLAIN if plain else NHWC
    inputs = tuple(place.read(name, layout) for name in node.inputs)
    shape = shape if plain else (shape[0], shape[2], shape[3], shape[1])
    workload = Add(shape, *(graph.dtype(name) for name in (*node.inputs, node.output)))
    _layer(place, node, workload, {"scalars": node.attributes["scalars"]}, inputs, layout)


def _concat(node: Operation, place: Placement, around: Neighbourhood) -> None:
    graph, a = place.semantic, node.attributes
    shape = graph.shape(node.output)
    layout, axis = (NHWC, 1) if len(shape) == 4 else (PLAIN, len(shape) - 1)
    parts = a.get("parts") or tuple((i, graph.shape(x)[axis]) for i, x in enumerate(node.inputs))
    workload = Concat(
        math.prod(shape) // shape[axis],
        tuple(channels for _, channels in parts),
        tuple(graph.dtype(name) for name in node.inputs),
        tuple(a["requantize"]),
        graph.dtype(node.output),
        sources=tuple(of for of, _ in parts) if "parts" in a else (),
    )
    inputs = tuple(place.read(name, layout) for name in node.inputs)
    _layer(place, node, workload, {"scalars": a["scalars"]}, inputs, layout)


def _flat_image(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """A tensor without pixels as an image of one row: (1, 1, outer, last)."""
    last = shape[-1] if shape else 1
    return 1, 1, math.prod(shape) // last, last


def _quantize(node: Operation, place: Placement, around: Neighbourhood) -> None:
    graph, a = place.semantic, node.attributes
    x = node.inputs[0]
    shape = graph.shape(x)
    constants = {"scalars": a["scalars"]}
    dtype = graph.dtype(node.output)
    readers = around.readers(node.output)
    matrices = bool(readers) and all(reader.op == BATCHED for reader in readers)
    if len(shape) != 4 or (matrices and place.has(x, PLAIN)):
        n, h, w, c = _flat_image(shape)
        workload = Quantize(n, h, w, c, c, 1, "NHWC", dtype)
        _layer(place, node, workload, constants, (place.read(x, PLAIN),), PLAIN)
        return
    n, c, h, w = shape
    layout = "NHWC" if place.has(x, NHWC) else "NCHW"
    buffer = place.read(x, NHWC if layout == "NHWC" else PLAIN)
    channels, block = a.get("channels", c), a.get("block", 1)
    planes = a.get("planes", False)
    workload = Quantize(n, h, w, c, channels, block, layout, dtype, planes)
    _layer(place, node, workload, constants, (buffer,), NHWC)


def _dequantize(node: Operation, place: Placement, around: Neighbourhood) -> None:
    graph = place.semantic
    x = node.inputs[0]
    shape, dtype = graph.shape(x), graph.dtype(x)
    constants = {"scalars": node.attributes["scalars"]}
    if len(shape) != 4 or not place.has(x, NHWC):
        n, h, w, c = _flat_image(shape)
        workload = Dequantize(n, h, w, c, "NHWC", dtype)
        _layer(place, node, workload, constants, (place.read(x, PLAIN),), PLAIN)
        return
    n, c, h, w = shape
    images = any(r.op in (CONV, POOL, CONCAT, ADD) for r in around.readers(node.output))
    layout = NHWC if images else PLAIN
    workload = Dequantize(n, h, w, c, "NHWC" if images else "NCHW", dtype)
    _layer(place, node, workload, constants, (place.read(x, NHWC),), layout)


def _reshape(node: Operation, place: Placement, around: Neighbourhood) -> None:
    """Free, unless channels-last bytes have to become ONNX's order.

    A fully connected layer behind a flattened image gets its weights permuted instead.
    """
    graph = place.semantic
    x = node.inputs[0]
    shape, new = graph.shape(x), graph.shape(node.output)
    if shape == new:  # another name
        layout = PLAIN if place.has(x, PLAIN) else NHWC
        place.alias(node.output, place.read(x, layout), layout)
        return
    readers = around.readers(node.output)
    products = bool(readers) and all(r.op == GEMM and r.inputs[1:] == () for r in readers)
    flattened = len(shape) == 4 and new == (shape[0], math.prod(shape[1:]))
    inside = node.output not in graph.outputs
    if flattened and inside and products and not place.has(x, PLAIN):
        place.flat[node.output] = (place.read(x, NHWC), (shape[1], shape[2], shape[3]))
        return
    place.alias(node.output, place.read(x, PLAIN))


def _table(node: Operation, place: Placement, around: Neighbourhood) -> None:
    graph, x = place.semantic, node.inputs[0]
    shape = graph.shape(x)
    layout = NHWC if len(shape) == 4 and not place.has(x, PLAIN) else PLAIN
    workload = Lookup(to_layout(shape, layout), graph.dtype(x), graph.dtype(node.output))
    _layer(place, node, workload, node.attributes, (place.read(x, layout),), layout)


def _workload(node: Operation, place: Placement, around: Neighbourhood) -> None:
    a, layout = node.attributes, node.attributes.get("layout", PLAIN)
    inputs = tuple(place.read(name, layout) for name in node.inputs)
    _layer(place, node, a["workload"], a["constants"], inputs, layout)


_TURNS = {TO_NHWC: (NHWC, PLAIN), TO_NCHW: (PLAIN, NHWC)}
"""Transpositions that are the same bytes: the layout of what they read, and of what they give."""


def _fusion(node: Operation, place: Placement, around: Neighbourhood) -> None:
    """A fusion, or nothing where the model itself turns an image that lies so already."""
    perm = _lone_transposition(node)
    if perm in _TURNS:
        source, result = _TURNS[perm]
        if place.has(node.inputs[0], source):
            place.alias(node.output, place.read(node.inputs[0], source), result)
            return
    lower_fusion(node, place)


def _lone_transposition(node: Operation) -> tuple[int, ...] | None:
    """The axes of a fusion that only transposes."""
    (first, *more), constants = node.attributes["primitives"], node.attributes["constants"]
    alone = first.op == "Transpose" and not more and not constants
    return tuple(first["perm"]) if alone else None


_LOWERINGS = {
    CONV: _conv,
    GEMM: _gemm,
    BATCHED: _batched,
    POOL: _pool,
    ADD: _add,
    CONCAT: _concat,
    QUANTIZE: _quantize,
    DEQUANTIZE: _dequantize,
    FUSION: _fusion,
    TABLE: _table,
    WORKLOAD: _workload,
    "Reshape": _reshape,
}
