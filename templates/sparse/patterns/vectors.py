"""Vectors of neighbouring outputs of one input: `VectorMatrix` of the weight [n, k]."""

from __future__ import annotations

import numpy as np

from autoq.templates.sparse.patterns.pattern import Figures, Pattern
from autoq.templates.sparse.structure import Structure, bucket


def vectors_of(weight: np.ndarray, vector: int) -> Structure:
    """The class of the vector rows of a weight [n, k]."""
    kept = np.asarray(weight) != 0
    rows = np.pad(kept, ((0, -len(kept) % vector), (0, 0))).reshape(-1, vector, kept.shape[1])
    return Structure.of(rows.any(axis=1).sum(axis=1))


def outputs_of(weight: np.ndarray) -> int:
    """Most outputs of a weight [n, k] that are not all zero."""
    return bucket(int(np.count_nonzero((np.asarray(weight) != 0).any(axis=1))))


def _figures(weight: np.ndarray, granularity: int) -> Figures:
    return Figures(outputs_of(weight), vectors_of(weight, granularity))


def in_vectors(
    rng: np.random.Generator, figures: Figures, granularity: int, shape: tuple[int, int]
) -> np.ndarray:
    """What random vectors keep; outputs beyond `columns` have none."""
    n, k = shape
    outputs = min(figures.columns, n)
    rows = -(-outputs // granularity)
    lengths = figures.structure.random_lengths(rng, rows, k) if rows else []
    kept = np.zeros((rows, k), bool)
    for row, length in enumerate(lengths):
        kept[row, rng.permutation(k)[:length]] = True
    whole = np.zeros(shape, bool)
    whole[:outputs] = kept.repeat(granularity, axis=0)[:outputs]
    return whole


def _weights(figures: Figures, granularity: int, most: int) -> int:
    return min(most, figures.structure.blocks * granularity)


PATTERN = Pattern("vectors", _figures, in_vectors, _weights)
