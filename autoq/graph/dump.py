"""A graph as text, one node a line, for people who debug a pass."""

from __future__ import annotations

import numpy as np

from autoq.graph.ir import Graph, Layer, Node, Operation


def dump(graph: Graph) -> str:
    """Inputs, nodes in running order and outputs of `graph`."""
    lines = [f"graph {graph.name}"]
    lines += [f"  input  {_tensor(graph, name)}" for name in graph.inputs]
    lines += [f"  {_node(graph, node)}" for node in graph.nodes]
    lines += [f"  output {_tensor(graph, name)}" for name in graph.outputs]
    return "\n".join(lines)


def _tensor(graph: Graph, name: str) -> str:
    tensor = graph.tensors[name]
    values = f" of {tensor.values}" if tensor.values else ""
    return f"{name}: {tensor.dtype}{list(tensor.shape)}{values}"


def _node(graph: Graph, node: Node) -> str:
    arguments = ", ".join(node.inputs)
    target = ", ".join(_tensor(graph, name) for name in node.outputs)
    if isinstance(node, Layer):
        return f"{target} = {node.workload.operator} [{node.workload}] ({arguments})"
    if isinstance(node, Operation):
        attributes = " ".join(f"{k}={_value(v)}" for k, v in node.attributes.items())
        return f"{target} = {node.op}({arguments}) {attributes}".rstrip()
    return f"{target} = {node.kind} ({arguments})"


def _value(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return str(value)
