"""Let convolutions and matrix products look their outputs up in the table that follows them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.graph.ir import Graph, Layer
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.target import Target


def absorb_tables(graph: Graph, target: Target, templates: Sequence[Template]) -> None:
    """Fuse each Lookup into the integer product in front of it that nothing else reads.

    Only where a template of the target computes the product with a table.
    """
    producers, consumers = graph.producers(), graph.consumers()
    replaced: dict[int, Layer] = {}
    for node in graph.nodes:
        table = node.workload.element_table(node.constants) if isinstance(node, Layer) else None
        if not isinstance(node, Layer) or table is None:
            continue
        product = producers.get(node.inputs[0])
        alone = len(consumers[node.inputs[0]]) == 1 and node.inputs[0] not in graph.outputs
        if alone and isinstance(product, Layer) and len(product.outputs) == 1:
            fused = _fused(product, node, table, target, templates)
            if fused is not None:
                replaced[id(product)] = fused
                replaced[id(node)] = fused
                del graph.tensors[node.inputs[0]]
    placed: dict[int, Layer] = {}
    nodes = []
    for node in graph.nodes:
        fused = replaced.get(id(node))
        if fused is None:
            nodes.append(node)
        elif id(fused) not in placed:
            placed[id(fused)] = fused
            nodes.append(fused)
    graph.nodes = nodes


def _fused(
    product: Layer,
    lookup: Layer,
    table: np.ndarray,
    target: Target,
    templates: Sequence[Template],
) -> Layer | None:
    """The product with the lookup behind it, None where no template computes that."""
    (y,) = lookup.workload.outputs
    fused = product.workload.before_table(product.constants, table, y.dtype)
    if fused is None or not matching(fused[0], target, templates):
        return None
    covers = tuple(dict.fromkeys((*product.covers, *lookup.covers)))
    return Layer(
        *fused, product.inputs, lookup.output, covers, product.float_reason, product.weight_values
    )
