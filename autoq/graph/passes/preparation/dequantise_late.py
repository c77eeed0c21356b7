"""Move DequantizeLinear behind operators that only move values, so that these move integers.

`op(dequantise(q)) = dequantise(op(q))` for reshapes, transposes, slices, maxima, zero padding, and
concatenations of equal quantisation; then `quantise(dequantise(q))` of equal quantisation is q,
exactly: (k * s) / s rounds to k for |k| < 2**22.
"""

from __future__ import annotations

import numpy as np

from autoq.graph.fused import same_scheme
from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.rewrite import add_tensor, fresh_name, prune

MOVES = (
    "Reshape", "Transpose", "Slice", "MaxPool", "Pad", "Concat", "Identity", "ChannelShuffle",
    "Take", "Gather", "Expand",
)  # fmt: skip


def dequantise_late(graph: Graph) -> None:
    """Apply both rules wherever they fit.

    One pass in running order does: what a rule makes of a node is seen by the nodes behind it.
    """
    outputs = set(graph.outputs)
    dequantisations: dict[str, Operation] = {}
    renamed: dict[str, str] = {}
    nodes: list[Node] = []
    for node in graph.operations:
        node.inputs = tuple(renamed.get(name, name) for name in node.inputs)
        found = [dequantisations.get(name) for name in node.inputs]
        sources = [source for source in found if source is not None]
        if not sources or len(sources) < len(found):
            sources = []
        if sources and _cancels(graph, node, sources[0]) and node.output not in outputs:
            renamed[node.output] = sources[0].inputs[0]
            continue
        sinks = sources and node.op in MOVES and _may_sink(graph, node, sources)
        made = _moved(graph, node, sources) if sinks else [node]
        nodes += made
        if made[-1].op == "DequantizeLinear":
            dequantisations[node.output] = made[-1]
    graph.nodes = nodes
    prune(graph)


def _cancels(graph: Graph, node: Operation, source: Operation) -> bool:
    """Whether a quantisation undoes the dequantisation `source` that it reads."""
    return node.op == "QuantizeLinear" and same_scheme(graph, node, source)


def _may_sink(graph: Graph, node: Operation, sources: list[Operation]) -> bool:
    first = sources[0]
    if node.op == "Concat":
        return all(same_scheme(graph, source, first) for source in sources)
    axis = first.attributes["axis"]
    if axis is not None and node.op == "Reshape":  # of a weight, its filters left alone
        shapes = graph.shape(node.inputs[0]), graph.shape(node.output)
        same = shapes[0][: axis + 1] == shapes[1][: axis + 1]
        return same and first.inputs[0] in graph.constants
    if axis is not None:
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
