"""The sparse attention that attention under a constant mask comes to."""

from __future__ import annotations

from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.attention_scalars import ATTENTION_SCALARS
from autoq.templates.operators.sparse_attention import GROUP, SparseAttention
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.vector_matrix import VectorMatrix, from_dense
from autoq.templates.workload import Constants, Workload

# What is added to the score of a key that is left out, at the most: e to that power is 0 beside any
# score that a model has.
_LEFT_OUT = -1e4
# Of all vectors of eight queries and a key so many at the most: beyond, dense kernels are faster.
_MOST_KEPT = 0.5


def sparse_attention_of(
    workload: Workload, constants: Constants, softmax_bits: int, qkv_bits: int
) -> tuple[SparseAttention, dict[str, Any]] | None:
    """Sparse attention with its constants; None for all but attention of 16-bit floats that adds
    one constant mask [queries, keys] for all pairs, which leaves out half of the keys or more.
    """
    if not isinstance(workload, Attention):
        return None
    dense = workload
    orders = {dense.q_order, dense.k_order, dense.v_order, dense.y_order}
    plain = dense.floating and dense.out_dtype == dense.q_dtype and len(orders) == 1
    if not (plain and dense.constant_mask and dense.mask_axes == "mn" and not dense.causal):
        return None
    kept = _kept(np.asarray(constants["mask"]).reshape(dense.queries, dense.keys))
    if kept is None:
        return None
    try:
        sparse = SparseAttention(
            dense.batch, dense.heads, dense.queries, dense.keys, dense.depth,
            Structure.of(kept.lengths, kept.pointers, kept.indices), dense.q_dtype,
            softmax_bits, qkv_bits, orders.pop(),
        )  # fmt: skip
    except InputError:  # depths and types that only dense attention has
        return None
    scale = np.asarray(constants["scalars"])[ATTENTION_SCALARS.index("scale")]
    return sparse, {
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
