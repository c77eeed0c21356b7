"""Attention under a constant mask that leaves out most keys: on request in integers over the rest.

Behind `merge_attention`, which finds attention: the mask is an initialiser of the model, the same
for all batches and heads, whose elements are either 0 or so low that no share is left of a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.graph.ir import Graph, Layer
from autoq.graph.precision import AttentionPrecision
from autoq.templates.attention_scalars import ATTENTION_SCALARS
from autoq.templates.base import Template
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.sparse_attention import GROUP, SparseAttention
from autoq.templates.registry import matching
from autoq.templates.sparse.vector_matrix import VectorMatrix, from_dense
from autoq.templates.structure import Structure
from autoq.templates.target import Target

# What is added to the score of a key that is left out, at the most: e to that power is 0 beside any
# score that a model has.
_LEFT_OUT = -1e4
# Of all vectors of eight queries and a key so many at the most: beyond, dense kernels are faster.
_MOST_KEPT = 0.5


def attend_sparsely(
    graph: Graph, target: Target, templates: Sequence[Template], precision: AttentionPrecision
) -> None:
    """Replace attention of 16-bit floats under such masks.

    A query whose keys are all left out gives zeros. Raises InputError where the graph has no such
    attention, or none that a kernel for the target computes.
    """
    replaced = 0
    for at, node in enumerate(graph.nodes):
        if not (isinstance(node, Layer) and isinstance(node.workload, Attention)):
            continue
        found = _sparse(node.workload, node.constants, precision)
        if found is not None and matching(found[0], target, templates):
            label = f"sparse attention, {precision.softmax_bits}-{precision.qkv_bits} bits"
            workload, constants = found
            graph.nodes[at] = replace(node, workload=workload, constants=constants, precision=label)
            replaced += 1
    if not replaced:
        raise InputError(
            f"precision {precision.name}: the model {graph.name!r} has no attention of float16 or "
            f"bfloat16 under a constant mask [{GROUP} queries or more, keys] that leaves out half "
            f"of the keys or more, which a kernel for {target.arch} computes so"
        )


def _sparse(
    dense: Attention, constants: Mapping[str, Any], precision: AttentionPrecision
) -> tuple[SparseAttention, dict[str, Any]] | None:
    """The sparse attention that a dense one under its mask is; None if it is none."""
    orders = {dense.q_order, dense.k_order, dense.v_order, dense.y_order}
    plain = dense.floating and dense.out_dtype == dense.q_dtype and len(orders) == 1
    if not (plain and dense.constant_mask and dense.mask_axes == "mn" and not dense.causal):
        return None
    kept = _kept(np.asarray(constants["mask"]).reshape(dense.queries, dense.keys))
    if kept is None:
        return None
    try:
        workload = SparseAttention(
            dense.batch, dense.heads, dense.queries, dense.keys, dense.depth,
            Structure.of(kept.lengths, kept.pointers, kept.indices), dense.q_dtype,
            precision.softmax_bits, precision.qkv_bits, orders.pop(),
        )  # fmt: skip
    except InputError:  # depths that only dense attention has
        return None
    scale = np.asarray(constants["scalars"])[ATTENTION_SCALARS.index("scale")]
    return workload, {
        "columns": kept.indices,
        "pointers": kept.pointers,
        "kept": ((kept.values != 0) @ (1 << np.arange(GROUP))).astype(np.uint8),
        "scale": np.array([scale], np.float32),
    }


def _kept(mask: np.ndarray) -> VectorMatrix | None:
    """Which keys a mask [queries, keys] keeps; None where it does something else, or keeps most."""
    keeps = mask == 0
    if not (keeps | (mask <= _LEFT_OUT)).all():
        return None
    groups = -(-len(mask) // GROUP)
    found = from_dense(keeps.astype(np.uint8), GROUP)
    return found if len(found.indices) <= _MOST_KEPT * groups * mask.shape[1] else None
