"""Fold products and sums of constants a channel (batch normalisation, biases) into the weights.

Conv or Gemm, then Mul, Div, Add or Sub with a constant that has one value a channel: the product
scales the weights (their scales, if they are quantised), the sum becomes the bias.
"""

from __future__ import annotations

import numpy as np

from autoq.graph.constants import along_axis
from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood, fresh_name, prune, replace_nodes


def fold_affine(graph: Graph) -> None:
    """Apply until nothing changes."""
    while _fold_once(graph):
        prune(graph)


def _fold_once(graph: Graph) -> bool:
    around = Neighbourhood(graph)
    groups = []
    for node in graph.nodes:
        if not isinstance(node, Operation) or node.op not in ("Conv", "Gemm"):
            continue
        reader = around.only_reader(node.output, "Mul", "Div", "Add", "Sub")
        if reader is None:
            continue
        values = _channel_values(graph, node, reader, around)
        weights = None if values is None else _weights(graph, node, around)
        if weights is None:
            continue
        folded = _folded(graph, node, reader, values, *weights)
        if folded is not None:
            groups.append(((node, reader), folded))
    replace_nodes(graph, groups)
    # Quantised weights got a new DequantizeLinear beside the convolution: put it in front.
    nodes = []
    for node in graph.nodes:
        scaled = node.attributes.pop("scaled_weight", None) if isinstance(node, Operation) else None
        nodes += [scaled, node] if scaled is not None else [node]
    graph.nodes = nodes
    return bool(groups)


def _channel_values(
    graph: Graph, node: Operation, reader: Operation, around: Neighbourhood
) -> np.ndarray | None:
    """The constant operand of `reader` as float64 [k], None where it is anything else."""
    index = reader.inputs.index(node.output)
    if reader.op == "Div" and index == 1:
        return None
    value = around.constant(reader.inputs[1 - index])
    shape = graph.shape(node.output)
    if value is None or value.dtype != np.float32 or value.ndim > len(shape):
        return None
    if graph.shape(reader.output) != shape:
        return None
    sizes = (1,) * (len(shape) - value.ndim) + value.shape
    if any(size != 1 for axis, size in enumerate(sizes) if axis != 1):
        return None
    return np.broadcast_to(value.reshape(-1).astype(np.float64), (shape[1],))


def _weights(
    graph: Graph, node: Operation, around: Neighbourhood
) -> tuple[np.ndarray, Operation | None, np.ndarray] | None:
    """(weight constant, its DequantizeLinear if any, float64 bias), None if not constant."""
    weight = node.inputs[1]
    dequantise = around.producer(weight, "DequantizeLinear")
    source = weight if dequantise is None else dequantise.inputs[0]
    if source not in graph.constants:
        return None
    if dequantise is not None and dequantise.attributes["axis"] not in (None, 0):
        return None
    bias = np.zeros(graph.shape(node.output)[1])
    if len(node.inputs) > 2:
        value = around.constant(node.inputs[2])
        if value is None:
            return None
        bias = value.reshape(-1).astype(np.float64)
    return graph.constants[source], dequantise, bias


def _folded(
    graph: Graph, node: Operation, reader: Operation, values: np.ndarray,
    weight: np.ndarray, dequantise: Operation | None, bias: np.ndarray,
) -> Operation | None:  # fmt: skip
    factor = np.ones_like(bias)
    if reader.op in ("Mul", "Div"):
        factor = values if reader.op == "Mul" else 1.0 / values
        bias = bias * factor
    else:
        negated = reader.op == "Sub" and reader.inputs.index(node.output) == 1
        factor = -factor if negated else factor
        bias = bias * factor + (-values if reader.op == "Sub" and not negated else values)
    attributes = dict(node.attributes)
    weight_name = node.inputs[1]
    if np.any(factor != 1.0) and dequantise is None:
        scaled = weight.astype(np.float64) * along_axis(factor, 0, weight.ndim)
        weight_name = _constant(graph, f"{node.output}/weight", scaled.astype(np.float32))
    elif np.any(factor != 1.0):
        if np.any(factor == 0.0):
            return None
        scale = np.broadcast_to(dequantise.attributes["scale"], bias.shape) * factor
        zero = np.broadcast_to(dequantise.attributes["zero_point"], bias.shape)
        weight_name = fresh_name(graph, f"{node.output}/weight")
        graph.tensors[weight_name] = graph.tensors[dequantise.output].__class__(
            weight_name, weight.shape, "float32"
        )
        attributes["scaled_weight"] = Operation(
            "DequantizeLinear", node.name, dequantise.inputs, weight_name,
            {"scale": scale.astype(np.float32), "zero_point": zero, "axis": 0}, (),
        )  # fmt: skip
    bias_name = _constant(graph, f"{node.output}/bias", bias.astype(np.float32))
    covers = (*node.covers, *reader.covers)
    inputs = (node.inputs[0], weight_name, bias_name)
    return Operation(node.op, node.name, inputs, reader.output, attributes, covers)


def _constant(graph: Graph, base: str, value: np.ndarray) -> str:
    name = fresh_name(graph, base)
    graph.constants[name] = value
    return name
