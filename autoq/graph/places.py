"""Inputs of a model that are places in its tables: tokens, of which each has a row."""

from __future__ import annotations

from collections.abc import Iterator

from autoq.graph.ir import Fusion, Graph, Siblings

_UNCHANGED = ("Cast", "Identity")


def places_of_inputs(graph: Graph) -> dict[str, int]:
    """For each input whose integers a Gather takes as they are, the size of the shortest axis.

    The graph is an optimised one.
    """
    sources = {name: name for name in graph.inputs}
    found: dict[str, int] = {}
    for node in _fusions(graph):
        first = len(node.inputs) + len(node.constants)
        origins: list[str | None] = [sources.get(name) for name in node.inputs]
        origins += [None] * len(node.constants)
        shapes = [*node.input_shapes, *(array.shape for array in node.constants)]
        for primitive in node.primitives:
            arguments = primitive.arguments
            if primitive.op == "Gather" and arguments[0] < first:
                name = origins[arguments[1]]
                size = shapes[arguments[0]][primitive["axis"]]
                if name is not None:
                    found[name] = min(found.get(name, size), size)
            whole = primitive.op in _UNCHANGED and "int" in primitive.dtype
            origins.append(origins[arguments[0]] if whole else None)
        if origins[-1] is not None:
            sources[node.output] = origins[-1]
    return found


def _fusions(graph: Graph) -> Iterator[Fusion]:
    """All of a graph, those that share a kernel one by one."""
    for node in graph.nodes:
        if isinstance(node, Fusion | Siblings):
            yield from node.parts
