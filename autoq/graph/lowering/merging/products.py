"""Products of one activation run in one launch, where a template of the target does that.

Queries, keys and values of a transformer are such: each takes a third of a GPU, and longer to start
than to compute. Their results stay apart, with their own scales and zero points. Where they are as
small, that gains more than what is known of their weights' zeros: 3 of 3072 x 768 x 768 bytes take
9.8 us together on an H200, and 16.8 one by one, whatever is pruned.
"""

from __future__ import annotations

import math
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

_TILE, _TILES = 128, 2
"""Rows and columns of a tile, and how many for each multiprocessor make a product large."""


def sharing(workloads: Sequence[Workload]) -> SharedProducts | None:
    """The one workload of several that read the same activation, None where there is none."""
    return shared_gemm.sharing(workloads) or shared_float_gemm.sharing(workloads)


def merge_products(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Put one layer in the place of the first of several products of equal workloads."""
    groups: dict[Any, list[Layer]] = {}
    for node in graph.nodes:
        if not isinstance(node, Layer):
            continue
        workload = _shareable(node.workload, target)
        if sharing([workload, workload]) is not None:
            key = (node.inputs, workload, node.weight_values, node.precision)
            groups.setdefault((*key, tuple(sorted(node.constants))), []).append(node)
    placed: dict[int, Layer] = {}
    gone: set[int] = set()
    for layers in groups.values():
        for members in _portions(layers):
            merged = sharing([_shareable(layer.workload, target) for layer in members])
            if merged is not None and matching(merged, target, templates):
                placed[id(members[0])] = _merged(members, merged)
                gone.update(id(layer) for layer in members[1:])
    nodes: list[Node] = [placed.get(id(node), node) for node in graph.nodes if id(node) not in gone]
    graph.nodes = nodes


def _shareable(workload: Workload, target: Target) -> Workload:
    """A product as others may share a launch with it: a small one forgets its weight's zeros.

    Kernels that skip zeros gain from large products alone, those of several tiles for each of the
    target's multiprocessors.
    """
    dense = workload.dense
    pair = sharing([dense, dense])
    if dense == workload or pair is None:
        return workload
    tiles = math.ceil(pair.m / _TILE) * math.ceil(pair.n / _TILE)
    return dense if tiles < _TILES * target.units else workload


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
