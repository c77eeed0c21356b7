"""Single weights wherever they are, and the vectors of 8 outputs that hold them all.

Kernels of single weights go by the first figures, whose rows are outputs, those of vectors by the
second ones: both are candidates for a weight of few values.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autoq.templates.sparse.patterns.pattern import Figures, Pattern
from autoq.templates.sparse.patterns.vectors import in_vectors, outputs_of, vectors_of
from autoq.templates.sparse.structure import Structure

VECTOR = 8
"""Outputs of the vectors that hold single weights."""


def elements_of(weight: np.ndarray) -> Structure:
    """The class of the single weights of each output of a weight [n, k]."""
    return Structure.of(np.count_nonzero(weight, axis=1))


def _figures(weight: np.ndarray, granularity: int) -> Figures:
    return Figures(outputs_of(weight), elements_of(weight), vectors_of(weight, VECTOR))


def _random(
    rng: np.random.Generator, figures: Figures, granularity: int, shape: tuple[int, int]
) -> np.ndarray:
    """Single weights inside of random vectors."""
    assert figures.beside is not None
    vectors = in_vectors(rng, replace(figures, structure=figures.beside), VECTOR, shape)
    return chosen(rng, figures.structure, vectors)


def chosen(rng: np.random.Generator, structure: Structure, places: np.ndarray) -> np.ndarray:
    """Random single weights of a class in some places, bool [n, k]."""
    kept = np.zeros(places.shape, bool)
    own = np.flatnonzero(places.any(axis=1))
    if len(own):
        lengths = structure.random_lengths(rng, len(own), places.shape[1])
        for row, length in zip(own, lengths, strict=True):
            kept[row, rng.permutation(np.flatnonzero(places[row]))[:length]] = True
    return kept


def _weights(figures: Figures, granularity: int, most: int) -> int:
    return min(most, figures.structure.blocks)


PATTERN = Pattern("ew", _figures, _random, _weights)
