"""What quantises a tensor as it comes joins the kernel that writes it, where that can do both.

The bytes need the range of all values. A kernel whose blocks hold what they computed until all of
them know the range reads nothing again and costs no launch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from autoq.graph.ir import Fusion, Graph, Layer, Node
from autoq.graph.lowering.fusions import quantises
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.target import Target


def merge_quantised(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Let kernels write the bytes of their results in the place of a dynamic quantisation.

    Those over rows write both. Products and attention write the bytes alone, so that nobody else
    may read the floats. Of several quantisations of a tensor one is joined.
    """
    producers = graph.producers()
    readings = Counter(name for node in graph.nodes for name in node.inputs)
    readings.update(graph.outputs)
    places = {id(node): index for index, node in enumerate(graph.nodes)}
    nodes: list[Node | None] = list(graph.nodes)
    for node in graph.nodes:
        if not isinstance(node, Layer) or not node.workload.quantises_by_range:
            continue
        front = producers.get(node.inputs[0])
        both: Node | None = None
        if isinstance(front, Fusion):
            both = _over_rows(front, node, target)
        elif isinstance(front, Layer) and readings[front.output] == 1:
            both = _bytes_alone(front, node, target, templates)
        if front is None or both is None:
            continue
        place = places[id(both)] = places[id(front)]
        nodes[place], nodes[places[id(node)]] = both, None
        producers[front.outputs[0]] = both
    graph.nodes = [node for node in nodes if node is not None]


def _covers(front: Fusion | Layer, node: Layer) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*front.covers, *node.covers)))


def _over_rows(front: Fusion, node: Layer, target: Target) -> Fusion | None:
    """A fusion that quantises what it writes."""
    whole = node.input_shapes == ((math.prod(front.output_shape),),)
    if front.quantised or not whole or not quantises(front, target):
        return None
    return replace(front, quantised=node.outputs, covers=_covers(front, node))


def _bytes_alone(
    front: Layer, node: Layer, target: Target, templates: Sequence[Template]
) -> Layer | None:
    """A layer whose one output is quantised by its range."""
    whole = node.input_shapes == ((math.prod(front.output_shapes[0]),),)
    workload = front.workload.by_range() if whole and not front.further_outputs else None
    if workload is None or not matching(workload, target, templates):
        return None
    bytes_of, *numbers = node.outputs
    return replace(
        front, workload=workload, output=bytes_of, covers=_covers(front, node),
        further_outputs=tuple(numbers),
    )  # fmt: skip
