"""Vector-wise pruning (VW): n of every m consecutive rows of a column stay, algorithm 2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.templates.sparse.pruned_matrix import Vector, Vectors


def vector_wise(scores: Sequence[np.ndarray], vector: Vector) -> list[Vectors]:
    """The most important weights of each vector of the matrices [k, n]."""
    return [Vectors(keep_in_vectors(one, vector), vector) for one in scores]


def keep_in_vectors(scores: np.ndarray, vector: Vector) -> np.ndarray:
    """bool [k, n]: the `vector.kept` most important of every `vector.of` rows of a column.

    Where k is no multiple of `vector.of`, the last vectors are shorter: as many of their weights
    stay as make the share right, one more in the columns where that one is most important.
    """
    k, n = scores.shape
    full = k // vector.of * vector.of
    whole = scores[:full].reshape(-1, vector.of, n)
    kept = (_ranks(whole) < vector.kept).reshape(full, n)
    return np.concatenate([kept, _keep_in_tail(scores[full:], vector)])


def _keep_in_tail(tail: np.ndarray, vector: Vector) -> np.ndarray:
    rows, n = tail.shape
    least = rows * vector.kept // vector.of
    further = round(rows * vector.share * n) - least * n
    ranks = _ranks(tail[None])[0]
    kept = ranks < least
    if further:
        next_best = np.where(ranks == least, tail, 0).sum(axis=0)
        columns = np.argsort(-next_best, kind="stable")[:further]
        kept[:, columns] = ranks[:, columns] <= least
    return kept


def _ranks(scores: np.ndarray) -> np.ndarray:
    """The place of each of scores [vectors, m, n] in its vector, 0 for the largest."""
    order = np.argsort(-scores, axis=1, kind="stable")
    ranks = np.empty_like(order)
    places = np.arange(scores.shape[1])[None, :, None]
    np.put_along_axis(ranks, order, np.broadcast_to(places, order.shape), axis=1)
    return ranks
