"""Products of one activation run in one launch, where a template of the target does that.

Queries, keys and values of a transformer are such: each takes a third of a GPU, and longer to start
than to compute. Their results stay apart, with their own scales and zero points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autoq.graph.ir import Graph, Layer, Node
from autoq.templates.base import Template
from autoq.templates.operators.shared import shared_float_gemm, shared_gemm
from autoq.templates.operators.shared.shared_products import MOST_PRODUCTS, SharedProducts
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload


def sharing(workloads: Sequence[Workload]) -> SharedProducts | None:
    """The one workload of several that read the same activation, None where there is none."""
    return shared_gemm.sharing(workloads) or shared_float_gemm.sharing(workloads)


def merge_products(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Put one layer in the place of the first of several products of equal workloads."""
    groups: dict[Any, list[Layer]] = {}
    for node in graph.nodes:
        if isinstance(node, Layer) and sharing([node.workload, node.workload]) is not None:
            key = (node.inputs, node.workload, node.weight_values, node.precision)
            groups.setdefault((*key, tuple(sorted(node.constants))), []).append(node)
    placed: dict[int, Layer] = {}
    gone: set[int] = set()
    for layers in groups.values():
        for members in _portions(layers):
            workload = sharing([layer.workload for layer in members])
            if workload is not None and matching(workload, target, templates):
                placed[id(members[0])] = _merged(members, workload)
                gone.update(id(layer) for layer in members[1:])
    nodes: list[Node] = [placed.get(id(node), node) for node in graph.nodes if id(node) not in gone]
    graph.nodes = nodes


def _portions(layers: Sequence[Layer]) -> Iterator[Sequence[Layer]]:
    """As many at a time as a workload takes, none of them alone."""
    while len(layers) > 1:
        count = MOST_PRODUCTS if len(layers) != MOST_PRODUCTS + 1 else MOST_PRODUCTS - 1
        yield layers[:count]
        layers = layers[count:]


def _merged(layers: Sequence[Layer], workload: Any) -> Layer:
    """One layer for several; the zero point of what they read is one."""
    first, *others = layers
    constants = {
        name: value
        if np.ndim(value) == 0
        else np.stack([np.asarray(layer.constants[name]) for layer in layers])
        for name, value in first.constants.items()
    }
    return Layer(
        workload, constants, first.inputs, first.output,
        tuple(dict.fromkeys(name for layer in layers for name in layer.covers)),
        first.float_reason, first.weight_values, tuple(layer.output for layer in others),
        first.precision,
    )  # fmt: skip
