"""Move DequantizeLinear behind operators that only move values, so that these move integers.

`op(dequantise(q)) = dequantise(op(q))` for reshapes, transposes, slices, maxima, zero padding, and
concatenations of equal quantisation; then `quantise(dequantise(q))` of equal quantisation is q,
exactly: (k * s) / s rounds to k for |k| < 2**22.
"""

from __future__ import annotations

import numpy as np

from autoq.graph.fused import same_scheme
from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.rewrite import Neighbourhood, add_tensor, fresh_name, prune, rename_inputs

MOVES = ("Reshape", "Transpose", "Slice", "MaxPool", "Pad", "Concat", "Identity", "ChannelShuffle")


def dequantise_late(graph: Graph) -> None:
    """Apply both rules until nothing changes."""
    while _sink(graph) | _cancel(graph):
        prune(graph)


def _sink(graph: Graph) -> bool:
    around = Neighbourhood(graph)
    nodes: list[Node] = []
    changed = False
    for node in graph.operations:
        found = [around.producer(name, "DequantizeLinear") for name in node.inputs]
        sources = [source for source in found if source is not None]
        whole = bool(sources) and len(sources) == len(found)
        if whole and node.op in MOVES and _may_sink(graph, node, sources):
            nodes += _moved(graph, node, sources)
            changed = True
        else:
            nodes.append(node)
    graph.nodes = nodes
    return changed


def _may_sink(graph: Graph, node: Operation, sources: list[Operation]) -> bool:
    first = sources[0]
    if node.op == "Concat":
        return all(same_scheme(graph, source, first) for source in sources)
    if first.attributes["axis"] is not None:
        return node.op == "Transpose" and first.inputs[0] in graph.constants
    return node.op != "Pad" or node.attributes["value"] == 0.0


def _moved(graph: Graph, node: Operation, sources: list[Operation]) -> list[Operation]:
    dequantise = sources[0]
    inputs = tuple(source.inputs[0] for source in sources)
    dtype = graph.dtype(inputs[0])
    attributes = dict(dequantise.attributes)
    if node.op == "Transpose" and attributes["axis"] is not None:
        attributes["axis"] = node.attributes["perm"].index(attributes["axis"])
    covers = tuple(dict.fromkeys((*dequantise.covers, *node.covers)))
    output = Operation("DequantizeLinear", node.name, ("",), node.output, attributes, covers)
    if inputs[0] in graph.constants and node.op in ("Transpose", "Reshape"):
        value = graph.constants[inputs[0]]
        moved = (
            np.ascontiguousarray(value.transpose(node.attributes["perm"]))
            if node.op == "Transpose"
            else value.reshape(node.attributes["shape"])
        )
        name = fresh_name(graph, f"{node.output}/integers")
        graph.constants[name] = moved
        output.inputs = (name,)
        return [output]
    name = add_tensor(graph, f"{node.output}/integers", graph.shape(node.output), dtype)
    moving = Operation(node.op, node.name, inputs, name, dict(node.attributes), node.covers)
    if node.op == "Pad":
        moving.attributes["value"] = float(attributes["zero_point"])
    output.inputs = (name,)
    return [moving, output]


def _cancel(graph: Graph) -> bool:
    """Remove a quantisation of what was dequantised alike."""
    around = Neighbourhood(graph)
    renamed: dict[str, str] = {}
    for node in graph.operations:
        if node.op != "QuantizeLinear":
            continue
        source = around.producer(node.inputs[0], "DequantizeLinear")
        undone = source is not None and same_scheme(graph, node, source)
        if source is not None and undone and node.output not in graph.outputs:
            renamed[node.output] = source.inputs[0]
    rename_inputs(graph, renamed)
    graph.nodes = [node for node in graph.nodes if node.output not in renamed]
    return bool(renamed)
