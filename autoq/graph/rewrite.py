"""What passes share: looking at a graph around a node, and replacing nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autoq.graph.constants import DEQUANTISATIONS, dequantised
from autoq.graph.ir import Graph, Node, Operation, Tensor


class Neighbourhood:
    """Producers and consumers of a graph's tensors as they were when it was made."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producers = graph.producers()
        self.consumers = graph.consumers()
        self.position = {id(node): index for index, node in enumerate(graph.nodes)}

    def producer(self, name: str, *ops: str) -> Operation | None:
        """The operation that writes `name`, if it is one of `ops`."""
        node = self.producers.get(name)
        return node if isinstance(node, Operation) and node.op in ops else None

    def readers(self, name: str) -> list[Operation]:
        """The operations that read `name`, one entry for each reading."""
        return [n for n in self.consumers.get(name, []) if isinstance(n, Operation)]

    def only_reader(self, name: str, *ops: str) -> Operation | None:
        """The operation that alone reads `name` (no graph output), if it is one of `ops`."""
        readers = self.consumers.get(name, [])
        if len(readers) != 1 or name in self.graph.outputs:
            return None
        node = readers[0]
        return node if isinstance(node, Operation) and (not ops or node.op in ops) else None

    def constant(self, name: str) -> np.ndarray | None:
        """The value of a constant, or of the dequantisation of one; None for anything else."""
        if name in self.graph.constants:
            return self.graph.constants[name]
        node = self.producer(name, *DEQUANTISATIONS)
        if node is not None and node.inputs[0] in self.graph.constants:
            return dequantised(self.graph.constants[node.inputs[0]], node)
        return None


def replace_nodes(graph: Graph, groups: Sequence[tuple[Sequence[Node], Node]]) -> None:
    """Put each group's second member where the last of its first members stands."""
    position = {id(node): index for index, node in enumerate(graph.nodes)}
    removed: set[int] = set()
    placed: dict[int, Node] = {}
    for old, new in groups:
        removed.update(id(node) for node in old)
        placed[max(position[id(node)] for node in old)] = new
    nodes: list[Node] = []
    for index, node in enumerate(graph.nodes):
        if index in placed:
            nodes.append(placed[index])
        elif id(node) not in removed:
            nodes.append(node)
    graph.nodes = nodes


def rename_inputs(graph: Graph, names: Mapping[str, str]) -> None:
    """Let every operation read `names[old]` instead of `old`, chains followed."""

    def final(name: str) -> str:
        while name in names:
            name = names[name]
        return name

    for node in graph.nodes:
        node.inputs = tuple(final(name) for name in node.inputs)


def prune(graph: Graph) -> None:
    """Drop nodes, tensors and constants that no graph output depends on."""
    wanted = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not wanted.isdisjoint(node.outputs):
            kept.append(node)
            wanted.update((*node.inputs, *node.outputs))
    graph.nodes = kept[::-1]
    wanted.update(graph.inputs)
    graph.tensors = {name: t for name, t in graph.tensors.items() if name in wanted}
    graph.constants = {name: c for name, c in graph.constants.items() if name in wanted}


def fresh_name(graph: Graph, base: str) -> str:
    """A name that no tensor or constant has."""
    name, count = base, 1
    while name in graph.tensors or name in graph.constants:
        name, count = f"{base}.{count}", count + 1
    return name


def add_tensor(graph: Graph, base: str, shape: tuple[int, ...], dtype: str) -> str:
    """Declare a new tensor and return its name."""
    name = fresh_name(graph, base)
    graph.tensors[name] = Tensor(name, tuple(shape), dtype)
    return name
