"""Weights of which n of every m consecutive ones are kept, and where: 2:4 as hardware takes it."""

from __future__ import annotations

import numpy as np

from autoq.templates.sparse.pruned_matrix import Vector


def compress(values: np.ndarray, kept: np.ndarray, vector: Vector) -> tuple[np.ndarray, np.ndarray]:
    """The kept values and their positions, both [ceil(k / of) * vector.kept, n].

    values: [k, n]; kept: bool [k, n] with at most `vector.kept` in each group of `vector.of` rows.
    positions: uint8, of each value within its group, ascending and distinct. Where a group keeps
    fewer, zeros stand at positions that are free.
    Raises ValueError for a mask that keeps more.
    """
    k, n = values.shape
    groups = -(-k // vector.of)
    missing = ((0, groups * vector.of - k), (0, 0))
    grouped = np.pad(kept, missing).reshape(groups, vector.of, n)
    if groups and grouped.sum(axis=1).max(initial=0) > vector.kept:
        raise ValueError(f"more than {vector} kept in a group")
    # The kept come first, then free positions; both in order.
    order = np.argsort(~grouped, axis=1, kind="stable")[:, : vector.kept]
    order.sort(axis=1)
    dense = np.pad(np.where(kept, values, 0), missing).reshape(groups, vector.of, n)
    chosen = np.take_along_axis(dense, order, axis=1)
    shape = (groups * vector.kept, n)
    return chosen.reshape(shape), order.astype(np.uint8).reshape(shape)


def expand(values: np.ndarray, positions: np.ndarray, vector: Vector, rows: int) -> np.ndarray:
    """The matrix [rows, n] that `compress` took."""
    n = values.shape[1]
    groups = -(-rows // vector.of)
    dense = np.zeros((groups, vector.of, n), values.dtype)
    shape = (groups, vector.kept, n)
    np.put_along_axis(
        dense, positions.reshape(shape).astype(np.int64), values.reshape(shape), axis=1
    )
    return dense.reshape(groups * vector.of, n)[:rows]
