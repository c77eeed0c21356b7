"""Move reshapes, transpositions and slices of a convolution behind what is computed of its values.

A transposed convolution is one whose pixels are put side by side: the clamp and the quantisation
behind it are the same in front of that, where they fuse into the kernel, and bytes are moved.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from autoq.graph.ir import Graph, Node, Operation
from autoq.graph.rewrite import Neighbourhood, add_tensor
from autoq.graph.shapes import UNARY

_MOVING = ("Reshape", "Transpose", "Slice")


def move_late(graph: Graph) -> None:
    """Exchange chains of such operations and element-wise ones of one tensor behind them.

    Nothing else may read what lies between. One pass in running order does: what is moved once is
    seen by the next operation.
    """
    around = Neighbourhood(graph)
    chains: dict[str, list[Operation]] = {}
    nodes: list[Node] = []
    for node in graph.operations:
        chain = chains.get(node.inputs[0]) if node.inputs else None
        alone = bool(node.inputs) and around.only_reader(node.inputs[0]) is not None
        if node.op == "Conv":
            chains[node.output] = []
        elif chain is not None and alone and node.op in _MOVING:
            chains[node.output] = [*chain, node]
        elif chain and alone and _is_elementwise(node):
            nodes = [other for other in nodes if other not in chain]
            nodes += _exchanged(graph, chain, node)
            chains[chain[-1].output] = chain
            continue
        elif chain is not None and alone and _is_elementwise(node):
            chains[node.output] = []
        nodes.append(node)
    graph.nodes = nodes


def _is_elementwise(node: Operation) -> bool:
    quantises = node.op in ("QuantizeLinear", "DequantizeLinear")
    return node.op in UNARY or (quantises and node.attributes["axis"] is None)


def _exchanged(graph: Graph, chain: list[Operation], node: Operation) -> list[Operation]:
    """`node` in front of the operations of a chain, which then write what it wrote."""
    dtype, source, result = graph.dtype(node.output), chain[0].inputs[0], node.output
    early = add_tensor(graph, f"{result}/early", graph.shape(source), dtype)
    node.inputs, node.output = (source,), early
    chain[0].inputs = (early,)
    for before, behind in itertools.pairwise(chain):
        tensor = graph.tensors[before.output]
        before.output = add_tensor(graph, f"{before.output}/late", tensor.shape, dtype)
        behind.inputs = (before.output,)
    chain[-1].output = result
    graph.tensors[result] = replace(graph.tensors[result], dtype=dtype)
    return [node, *chain]
