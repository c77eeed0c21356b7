"""Which kernels of an optimised graph compute with floats, and where a quantised model does."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.graph.ir import Graph, Layer, Node
from autoq.templates.arrays.element import INTEGER_RANGE, element


@dataclass(frozen=True)
class FloatKernels:
    """How many of all kernels read floats, and the nodes at which the model leaves integers.

    Kernels that only quantise are none of them. `leaves` are the names of nodes that write floats
    of quantised tensors for other kernels, in running order: what the model gives out may be float.
    """

    floats: int = 0
    total: int = 0
    leaves: tuple[str, ...] = ()


def float_kernels(graph: Graph) -> FloatKernels:
    """Counts and names for an optimised graph."""

    def is_float(name: str) -> bool:
        return element(graph.tensors[name].dtype).floating

    read = {name for node in graph.nodes for name in node.inputs}
    leaves = [
        node.name
        for node in graph.nodes
        if any(graph.tensors[name].dtype in INTEGER_RANGE for name in node.inputs)
        and any(is_float(name) and name in read for name in node.outputs)
    ]
    computing = [
        node
        for node in graph.nodes
        if not _converts(node) and any(is_float(name) for name in node.inputs)
    ]
    return FloatKernels(len(computing), len(graph.nodes), tuple(dict.fromkeys(leaves)))


def _converts(node: Node) -> bool:
    return isinstance(node, Layer) and node.workload.converts
