"""Two products of activations and the softmax between them become one kernel, where there is one.

Scores are then in no memory. Behind the passes that made the products and the fusion of rows, whose
axes, roundings and masks they know; what others read as well stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autoq.graph.ir import Fusion, Graph, Layer, Node, Tensor
from autoq.graph.lowering.merging.rows import merged
from autoq.graph.lowering.softmax_chain import SoftmaxChain, softmax_chain
from autoq.graph.rewrite import fresh_name
from autoq.templates.base import Template
from autoq.templates.operators.attention_of_products import attention_of
from autoq.templates.registry import matching
from autoq.templates.target import Target


def merge_attention(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Put a layer in the place of each product of values whose shares only it reads."""
    producers = graph.producers()
    readings = Counter(name for node in graph.nodes for name in node.inputs)
    readings.update(graph.outputs)
    gone: set[int] = set()
    placed: dict[int, list[Node]] = {}
    for values in graph.nodes:
        found = _softmax_before(values, producers, readings)
        if found is None or not isinstance(values, Layer):
            continue
        chain, nodes, scores = found
        attention = attention_of(
            (scores.workload, scores.constants), chain.between, (values.workload, values.constants)
        )
        if attention is None or not matching(attention[0], target, templates):
            continue
        workload, constants = attention
        inputs = (*scores.inputs, values.inputs[1])
        made: list[Node] = []
        if chain.mask is not None:
            mask = chain.mask.made_by
            if isinstance(mask, np.ndarray):
                constants["mask"] = mask.reshape(workload.mask_shape)
            else:
                inputs = (*inputs, _array(graph, mask, chain.mask.shape, made))
        covers = tuple(dict.fromkeys(n for one in (scores, *nodes, values) for n in one.covers))
        made.append(Layer(workload, constants, inputs, values.output, covers))
        gone.update(map(id, (scores, *nodes)))
        placed[id(values)] = made
    graph.nodes = [
        item
        for node in graph.nodes
        if id(node) not in gone
        for item in placed.get(id(node), [node])
    ]


def _softmax_before(
    values: Node, producers: dict[str, Node], readings: Counter[str]
) -> tuple[SoftmaxChain, list[Fusion], Layer] | None:
    """The chain that alone makes the first factor of a product, its fusions, and the scores."""

    def alone(name: str) -> Node | None:
        return producers.get(name) if readings[name] == 1 else None

    rows = alone(values.inputs[0]) if isinstance(values, Layer) else None
    if not isinstance(rows, Fusion):
        return None
    nodes, whole = [rows], rows
    chain = softmax_chain(whole)
    if chain is None:
        return None
    front = alone(whole.inputs[chain.scores])
    if isinstance(front, Fusion) and front.output_shape == whole.input_shapes[chain.scores]:
        nodes.append(front)
        whole = merged(front, whole, chain.scores)
        chain = softmax_chain(whole)
        front = None if chain is None else alone(whole.inputs[chain.scores])
    return (chain, nodes, front) if chain is not None and isinstance(front, Layer) else None


def _array(graph: Graph, mask: str | Fusion, shape: tuple[int, ...], made: list[Node]) -> str:
    """The array of a mask; the fusion that computes it is added to `made`."""
    if isinstance(mask, str):
        return mask
    name = fresh_name(graph, f"{mask.output}/mask")
    graph.tensors[name] = Tensor(name, shape, "float32")
    made.append(replace(mask, output=name))
    return name
