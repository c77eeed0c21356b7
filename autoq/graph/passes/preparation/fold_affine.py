"""Fold products and sums of constants a channel (batch normalisation, biases) into the weights.

Conv or Gemm, then Mul, Div, Add or Sub with a constant that has one value a channel: the product
scales the weights (their scales, if they are quantised), the sum becomes the bias.
"""

from __future__ import annotations

import numpy as np

from autoq.graph.constants import DEQUANTISATIONS, along_axis
from autoq.graph.fused import LARGEST_SCALE
from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.rewrite import Neighbourhood, add_tensor, fresh_name, prune, replace_nodes


def fold_affine(graph: Graph) -> None:
    """Fold every such chain behind a Conv or Gemm, however long."""
    around = Neighbourhood(graph)
    groups = []
    for node in graph.operations:
        members, folded = [node], node
        while (step := _fold_reader(graph, folded, around)) is not None:
            for name in {*folded.inputs} - {*step[1].inputs, *node.inputs}:
                graph.constants.pop(name, None)  # of the step before: nobody else reads it
            members.append(step[0])
            folded = step[1]
        if folded is not node:
            groups.append((members, folded))
    replace_nodes(graph, groups)
    # Quantised weights got a new DequantizeLinear beside the convolution: put it in front.
    nodes: list[Node] = []
    for node in graph.operations:
        scaled = node.attributes.pop("scaled_weight", None)
        nodes += [scaled, node] if scaled is not None else [node]
    graph.nodes = nodes
    prune(graph)


def _fold_reader(
    graph: Graph, node: Operation, around: Neighbourhood
) -> tuple[Operation, Operation] | None:
    """The product or sum behind a Conv or Gemm, and the Conv or Gemm that computes both."""
    if node.op not in ("Conv", "Gemm"):
        return None
    reader = around.only_reader(node.output, "Mul", "Div", "Add", "Sub")
    if reader is None:
        return None
    values = _channel_values(graph, node, reader, around)
    weights = _weights(graph, node, around)
    if values is None or weights is None or not _moderate(reader, values):
        return None
    folded = _folded(graph, node, reader, values, *weights)
    return None if folded is None else (reader, folded)


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


def _moderate(reader: Operation, values: np.ndarray) -> bool:
    """Whether folding leaves numbers where float32 holds what the operators would compute."""
    factors = np.abs(values)
    if reader.op == "Div":
        return bool(np.all((factors >= 1 / LARGEST_SCALE) & (factors <= LARGEST_SCALE)))
    return bool(np.all(factors <= LARGEST_SCALE))


def _weights(
    graph: Graph, node: Operation, around: Neighbourhood
) -> tuple[np.ndarray, Operation | None, np.ndarray] | None:
    """(weight constant, its DequantizeLinear if any, float64 bias), None if not constant."""
    weight = node.inputs[1]
    scaled = node.attributes.get("scaled_weight")
    dequantise = scaled or around.producer(weight, *DEQUANTISATIONS)
    source = weight if dequantise is None else dequantise.inputs[0]
    if source not in graph.constants:
        return None
    by_blocks = dequantise is not None and dequantise.op == "DequantizeBlocks"
    if dequantise is not None and not by_blocks and dequantise.attributes["axis"] not in (None, 0):
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
    if np.any(factor != 1.0):
        if dequantise is None:
            scaled = weight.astype(np.float64) * along_axis(factor, 0, weight.ndim)
            weight_name = _constant(graph, f"{node.output}/weight", scaled.astype(np.float32))
        elif dequantise.op == "DequantizeBlocks" or np.any(factor == 0.0):
            return None  # integers times a scale of 0 have no bias to round to
        else:
            attributes["scaled_weight"] = _rescaled(graph, node, dequantise, factor)
            weight_name = attributes["scaled_weight"].output
    bias_name = _constant(graph, f"{node.output}/bias", bias.astype(np.float32))
    covers = (*node.covers, *reader.covers)
    inputs = (node.inputs[0], weight_name, bias_name)
    return Operation(node.op, node.name, inputs, reader.output, attributes, covers)


def _rescaled(
    graph: Graph, node: Operation, dequantise: Operation, factor: np.ndarray
) -> Operation:
    """The dequantisation of the weights with each filter's scale multiplied by its factor."""
    old = dequantise.attributes
    scale = (np.broadcast_to(old["scale"], factor.shape) * factor).astype(np.float32)
    zero_point = np.broadcast_to(old["zero_point"], factor.shape)
    name = add_tensor(graph, f"{node.output}/weight", graph.shape(dequantise.output), "float32")
    attributes = {"scale": scale, "zero_point": zero_point, "axis": 0}
    return Operation("DequantizeLinear", node.name, dequantise.inputs, name, attributes)


def _constant(graph: Graph, base: str, value: np.ndarray) -> str:
    name = fresh_name(graph, base)
    graph.constants[name] = value
    return name
