"""Tell layers which of their weight's values are zero, where a template makes use of it.

A layer whose weight fits a pattern becomes a workload of that class. Dense templates compute it as
before, so that all kernels that can are candidates of one tuning task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from autoq.graph.ir import Graph, Layer
from autoq.graph.known_zeros import (
    element_classes,
    full_tile_classes,
    narrow_vectors,
    tile_and_element_classes,
    tile_wise_classes,
    two_four_classes,
    two_four_tile_classes,
    vector_classes,
)
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.target import Target

RECOGNISERS: tuple[Callable[[np.ndarray], Iterable[Sparsity]], ...] = (
    narrow_vectors,
    full_tile_classes,
    tile_and_element_classes,
    two_four_tile_classes,
    tile_wise_classes,
    two_four_classes,
    vector_classes,
    element_classes,
)
"""From a weight [n, k] to the classes that it fits, the best one first.

A convolution's [k, r, s, c] is looked at as [k, r * s * c].
"""

_LEAST_ZEROS = 0.05
"""The least share of zeros that is looked at: quantised weights have some by chance."""


def know_zeros(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Give each layer's workload the first class of its weight that a template makes use of.

    It has to make use of what the class tells beyond the class that tells less.
    """
    graph.nodes = [
        _knowing(node, target, templates) if isinstance(node, Layer) else node
        for node in graph.nodes
    ]


def _knowing(layer: Layer, target: Target, templates: Sequence[Template]) -> Layer:
    """The layer with the class of its weight; itself without one that is of use."""
    weight = np.asarray(layer.constants.get("weight", 0))
    few = np.count_nonzero(weight) > (1 - _LEAST_ZEROS) * weight.size
    if few or weight.ndim < 2:
        return layer
    weight = weight.reshape(len(weight), -1)
    dense = matching(layer.workload, target, templates)
    for recognise in RECOGNISERS:
        for sparsity in recognise(weight):
            knowing = layer.workload.with_sparsity(sparsity)
            if knowing is None:
                return layer
            less = knowing.knowing_less[0]
            without = dense if less == layer.workload else matching(less, target, templates)
            if len(matching(knowing, target, templates)) > len(without):
                return dataclasses.replace(layer, workload=knowing)
    return layer
