"""Quantised attention of one head under a sparse mask, in numpy."""

from __future__ import annotations

import numpy as np

from autoq.templates.sparse.vector_matrix import VectorMatrix

Head = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Queries [m, d], keys [n, d] and values [n, d]."""

_ROWS = 64


def attention_of_pair(
    head: Head, mask: VectorMatrix, scale: np.float32, softmax_bits: int, qkv_bits: int
) -> np.ndarray:
    """y as float32 [m, d], as `SparseAttention` says."""
    q, k, v = (array.astype(np.float32) for array in head)
    most = np.float32(2 ** (qkv_bits - 1) - 1)
    q_values, q_step = quantised(q, np.abs(q).max(axis=1, keepdims=True), most)
    k_values, k_step = quantised(k, np.abs(k).max(), most)
    v_values, v_step = quantised(v, np.abs(v).max(), most)
    shares_most = np.float32(2**softmax_bits - 1)
    y = np.zeros((len(q), v.shape[1]), np.float32)
    height = mask.vector * _ROWS
    for start in range(0, mask.rows, height):
        rows = slice(start, min(mask.rows, start + height))
        kept = kept_rows(mask, start // mask.vector, _ROWS)[: rows.stop - start]
        sums = (q_values[rows] @ k_values.T).astype(np.float32)
        scores = np.where(kept, sums * (q_step[rows] * k_step * scale), -np.inf)
        largest = scores.max(axis=1, keepdims=True)
        shares = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
        shares = np.rint(shares * shares_most)
        total = shares.sum(axis=1, keepdims=True)
        weighed = (shares.astype(np.float64) @ v_values).astype(np.float32)
        y[rows] = weighed * (v_step / np.maximum(total, 1))
    return y


def quantised(
    values: np.ndarray, largest: np.ndarray, most: np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """Integers, as float64, and their step: the largest magnitude becomes `most`."""
    inverse = np.where(largest > 0, most / np.maximum(largest, 1e-30), 0).astype(np.float32)
    step = np.where(largest > 0, largest / most, 1).astype(np.float32)
    return np.clip(np.rint(values * inverse), -most, most).astype(np.float64), step


def kept_rows(mask: VectorMatrix, first: int, count: int) -> np.ndarray:
    """Which elements of some vector rows are kept, bool [count * vector, columns]."""
    last = min(first + count, mask.vector_rows)
    start, stop = mask.pointers[first], mask.pointers[last]
    kept = np.zeros((count, mask.vector, mask.columns), bool)
    of = np.repeat(np.arange(last - first), mask.lengths[first:last])
    kept[of, :, mask.indices[start:stop]] = mask.values[start:stop] != 0
    return kept.reshape(-1, mask.columns)
