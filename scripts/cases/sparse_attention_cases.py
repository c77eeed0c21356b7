"""Sampled products and attention under sparse masks, as they are measured beside others."""

from __future__ import annotations

from autoq.templates.operators.sddmm import Sddmm
from autoq.templates.operators.sparse_attention import GROUP, SparseAttention
from autoq.templates.sparse.structure import Structure

PRECISIONS = ((16, 8), (8, 8), (8, 4))
"""Bits of the softmax and of q, k and v, those of Magicube's figure 17."""


def class_of(rows: int, columns: int, sparsity: float, vector: int = GROUP) -> Structure:
    """The bounds of a mask of just this sparsity, whose vector rows are about as long as others.

    They are no ends of buckets, up to which a random mask would be denser.
    """
    mean = round((1 - sparsity) * columns)
    longest = min(columns, round(1.2 * mean) + 8)
    return Structure(-(-rows // vector) * mean, mean, longest)


def sampled(k: int, dtype: str, sparsity: float = 0.9, vector: int = GROUP) -> Sddmm:
    """A sampled product of 4096 x 4096; of 16 bits with scaled sums."""
    out = "int32" if dtype in ("int4", "int8") else "float16"
    structure = class_of(4096, 4096, sparsity, vector)
    return Sddmm(4096, 4096, k, vector, structure, dtype, dtype, out)


def attention(
    length: int, heads: int, batch: int, sparsity: float, bits: tuple[int, int] = (8, 8),
    depth: int = 64,
) -> SparseAttention:  # fmt: skip
    """Attention of heads of `depth` values."""
    structure = class_of(length, length, sparsity)
    return SparseAttention(batch, heads, length, length, depth, structure, "float16", *bits)


SAMPLED = [
    *(sampled(k, dtype) for dtype in ("int16", "int8", "int4", "float16") for k in (64, 128, 256)),
    *(sampled(64, "int8", vector=vector) for vector in (2, 4)),
    sampled(64, "int8", 0.7),
    sampled(64, "int8", 0.98),
]

ATTENTION = [
    *(attention(8192, 8, 2, 0.9, bits) for bits in PRECISIONS),
    attention(8192, 8, 2, 0.95),
    attention(4096, 8, 2, 0.9),
    attention(4096, 4, 2, 0.9),
    attention(4096, 8, 8, 0.9),
    *(attention(4096, 8, 2, 0.9, bits, 128) for bits in PRECISIONS[:2]),
]
