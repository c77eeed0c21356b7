"""A transposition of a transposition is one, so that what reads it may take it in."""

from __future__ import annotations

from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood, prune


def join_turns(graph: Graph) -> None:
    """Let each Transpose read what the one in front of it reads, whatever its name in between."""
    around = Neighbourhood(graph)
    for node in graph.operations:
        before = _turn(around, node.inputs[0]) if node.op == "Transpose" else None
        if before is None or before.inputs[0] in graph.constants:
            continue
        first = before.attributes["perm"]
        node.attributes["perm"] = tuple(first[axis] for axis in node.attributes["perm"])
        node.inputs = before.inputs
    prune(graph)


def _turn(around: Neighbourhood, name: str) -> Operation | None:
    """The Transpose that a tensor comes from, under whatever name."""
    node = around.producer(name, "Transpose", "Reshape")
    while node is not None and node.op == "Reshape":
        if around.graph.shape(node.inputs[0]) != around.graph.shape(node.output):
            return None
        node = around.producer(node.inputs[0], "Transpose", "Reshape")
    return node
