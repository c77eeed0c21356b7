"""Attention computes its queries, keys and values itself, where a template of the target does that.

They are then in no memory, and a launch is saved. It takes products that share one already
(`products.py`), which nothing but the attention reads. A block has a head with all its rows, so
that no more heads are taken than run at once: those of a second round would wait for the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from autoq.graph.ir import Graph, Layer, Node
from autoq.templates.base import Template
from autoq.templates.operators.projected_attention import projected
from autoq.templates.registry import matching
from autoq.templates.target import Target


def merge_projections(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Put one layer in the place of each attention and the products that it alone reads."""
    producers = graph.producers()
    readings = Counter(name for node in graph.nodes for name in node.inputs)
    readings.update(graph.outputs)
    placed: dict[int, Layer] = {}
    gone: set[int] = set()
    for attention in graph.nodes:
        products = _products_before(attention, producers, readings)
        if products is None or not isinstance(attention, Layer):
            continue
        workload = projected(products.workload, attention.workload)
        if workload is None or workload.attention.pairs > target.units:
            continue
        if not matching(workload, target, templates):
            continue
        order = [products.outputs.index(name) for name in attention.inputs]
        constants = workload.together(_in_order(products.constants, order), attention.constants)
        covers = tuple(dict.fromkeys((*products.covers, *attention.covers)))
        placed[id(attention)] = Layer(
            workload, constants, products.inputs, attention.output, covers,
            weight_values=products.weight_values,
        )  # fmt: skip
        gone.add(id(products))
    graph.nodes = [placed.get(id(node), node) for node in graph.nodes if id(node) not in gone]


def _products_before(
    node: Node, producers: dict[str, Node], readings: Counter[str]
) -> Layer | None:
    """The layer whose outputs are a node's inputs, each of them one and read by nothing else."""
    makers = {id(producers.get(name)): producers.get(name) for name in node.inputs}
    maker = next(iter(makers.values()), None)
    if len(makers) != 1 or not isinstance(maker, Layer):
        return None
    alone = all(readings[name] == 1 for name in maker.outputs)
    return maker if alone and sorted(maker.outputs) == sorted(node.inputs) else None


def _in_order(constants: Any, order: Sequence[int]) -> dict[str, Any]:
    """The constants of several products in another order of them."""
    return {
        name: value if np.ndim(value) == 0 else np.asarray(value)[list(order)]
        for name, value in constants.items()
    }
