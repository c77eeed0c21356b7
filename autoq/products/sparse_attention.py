"""`autoq.sparse_attention`: attention whose queries see some keys each, quantised on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.products.masks import mask_vectors
from autoq.products.option_fields import options_of
from autoq.products.placed_options import PlacedOptions
from autoq.runtime.dlpack import ARRAYS, tensor_of
from autoq.single_operator import CompiledOperator
from autoq.templates.operators.sparse_attention import GROUP, ORDERS, SparseAttention
from autoq.templates.sparse.structure import Structure


@dataclass(frozen=True)
class SparseAttentionOptions(PlacedOptions):
    """How the layer is quantised, and where it is computed.

    softmax_bits: of a share, 8 or 16. qkv_bits: of q, k and v, 4 or 8. order: of the axes of q, k,
    v and y, "bhld" for [batch, heads, rows, depth] or "blhd" for [batch, rows, heads, depth].
    scale: of scores, a positive number; None for one over the square root of the depth. target,
    tuning_records, use_shipped_records and cache_dir as in `autoq.operator`.
    """

    softmax_bits: int = 8
    qkv_bits: int = 8
    order: str = ORDERS[0]
    scale: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in ORDERS:
            raise InputError(f"order {self.order!r:.40}: choose {' or '.join(ORDERS)}")


def sparse_attention(q: Any, k: Any, v: Any, mask: Any, **options: Any) -> Any:
    """`softmax(scale * q k^T) v` over the keys that a mask [queries, keys] keeps.

    q: [batch, heads, queries, depth], k, v: [batch, heads, keys, depth], or in the other `order`,
    of float16 or bfloat16, numpy or DLPack. mask: bool numpy, a matrix of scipy.sparse, a torch CSR
    or BSR tensor or a format of `autoq.templates.sparse`, for all batches and heads. Any mask is
    right; it is fastest where eight queries, from a multiple of eight on, see the same keys. A
    query that sees none gives zeros. `options` are the fields of `SparseAttentionOptions`. y is as
    of `autoq.operator`. Each call compiles, or finds the kernel in the cache, and packs the mask:
    for many calls with one mask keep what `sparse_attention_operator` gives.

    Raises InputError for what the user gave, and else what `autoq.operator` raises.
    """
    arrays = {}
    for name, given in (("q", q), ("k", k), ("v", v)):
        arrays[name] = given if isinstance(given, ARRAYS) else tensor_of(name, given)
        shape = arrays[name].shape
        if len(shape) != 4:
            raise InputError(
                f"{name} of shape {list(shape)!s:.60}: [batch, heads, rows, depth] is expected"
            )
    order = options_of(SparseAttentionOptions, options).order
    sizes, others = (
        dict(zip(order, map(int, arrays[name].shape), strict=False)) for name in ("q", "k")
    )
    batch, heads, queries, depth = (sizes[axis] for axis in ORDERS[0])
    shape = tuple(arrays["k"].shape)
    if {**others, "l": queries} != sizes or tuple(arrays["v"].shape) != shape:
        given = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise InputError(
            f"{given:.120}: all have the same batch, heads and depth, k and v one shape"
        )
    kept = mask_vectors(mask, GROUP)
    if (kept.rows, kept.columns) != (queries, others["l"]):
        raise InputError(
            f"the mask is {[kept.rows, kept.columns]}; q and k take one of {[queries, others['l']]}"
        )
    made = sparse_attention_operator(
        kept, batch, heads, depth, dtype=str(arrays["q"].dtype), **options
    )
    return made(*arrays.values())


def sparse_attention_operator(
    mask: Any, batch: int, heads: int, depth: int, *, dtype: str = "float16", **options: Any
) -> CompiledOperator:
    """Attention under one mask as a function of q, k and v.

    The `workload` of what is given is what `autoq.tune` takes; records serve all masks of its
    class. Arguments and errors are those of `sparse_attention`.
    """
    chosen = options_of(SparseAttentionOptions, options)
    vectors = mask_vectors(mask, GROUP)
    place = chosen.place
    workload = SparseAttention(
        batch, heads, vectors.rows, vectors.columns, depth,
        Structure.of(vectors.lengths, vectors.pointers, vectors.indices),
        dtype, chosen.softmax_bits, chosen.qkv_bits, chosen.order,
    )  # fmt: skip
    scale = 1 / math.sqrt(depth) if chosen.scale is None else chosen.scale
    kept = (vectors.values != 0) @ (1 << np.arange(GROUP))
    constants = {
        "columns": vectors.indices,
        "pointers": vectors.pointers,
        "kept": kept.astype(np.uint8),
        "scale": np.array([scale], np.float32),
    }
    return place.compiled(workload, constants)
