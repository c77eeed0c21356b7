"""Attention under a constant mask that leaves out most keys: on request in integers over the rest.

Behind `merge_attention`, which finds attention: the mask is an initialiser of the model, the same
for all batches and heads, whose elements are either 0 or so low that no share is left of a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoq.errors import InputError
from autoq.graph.ir import Graph, Layer
from autoq.graph.precision import AttentionPrecision
from autoq.templates.base import Template
from autoq.templates.operators.attention_under_mask import sparse_attention_of
from autoq.templates.registry import matching
from autoq.templates.target import Target


def attend_sparsely(
    graph: Graph, target: Target, templates: Sequence[Template], precision: AttentionPrecision
) -> None:
    """Replace attention of 16-bit floats under such masks.

    A query whose keys are all left out gives zeros. Raises InputError where the graph has no such
    attention, or none that a kernel for the target computes.
    """
    bits = (precision.softmax_bits, precision.qkv_bits)
    replaced = 0
    for at, node in enumerate(graph.nodes):
        if not isinstance(node, Layer):
            continue
        found = sparse_attention_of(node.workload, node.constants, *bits)
        if found is not None and matching(found[0], target, templates):
            label = f"sparse attention, {bits[0]}-{bits[1]} bits"
            workload, constants = found
            graph.nodes[at] = replace(node, workload=workload, constants=constants, precision=label)
            replaced += 1
    if not replaced:
        raise InputError(
            f"precision {precision.name}: the model {graph.name!r} has no attention of float16 or "
            "bfloat16 under a constant mask [queries, keys] that leaves out half of the keys or "
            f"more, which a kernel for {target.arch} computes so"
        )
