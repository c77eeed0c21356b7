"""What quantises a tensor as it comes joins the kernel that writes it, where that can do both.

The bytes need the range of all values. A kernel whose blocks hold what they computed until all of
them know the range reads nothing again and costs no launch.
"""

from __future__ import annotations

import math
from dataclasses import replace

from autoq.graph.ir import Fusion, Graph, Layer, Node
from autoq.graph.lowering.fusions import quantises
from autoq.templates.operators.dynamic_quantize import DynamicQuantize
from autoq.templates.target import Target


def merge_quantised(graph: Graph, target: Target) -> None:
    """Let fusions of rows write their results' bytes too, in the place of a dynamic quantisation.

    One of a tensor that several quantise takes the first of them.
    """
    producers = graph.producers()
    places = {id(node): index for index, node in enumerate(graph.nodes)}
    nodes: list[Node | None] = list(graph.nodes)
    for node in graph.nodes:
        if not isinstance(node, Layer) or not isinstance(node.workload, DynamicQuantize):
            continue
        front = producers[node.inputs[0]] if node.inputs[0] in producers else None
        if not isinstance(front, Fusion) or front.quantised:
            continue
        whole = math.prod(front.output_shape) == node.workload.size
        if not whole or not quantises(front, target):
            continue
        both = replace(
            front,
            quantised=node.outputs,
            covers=tuple(dict.fromkeys((*front.covers, *node.covers))),
        )
        nodes[places[id(front)]], nodes[places[id(node)]] = both, None
        places[id(both)] = places[id(front)]
        producers[front.output] = both
    graph.nodes = [node for node in nodes if node is not None]
