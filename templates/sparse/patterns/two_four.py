"""Of every four neighbours along k two: what sparse tensor cores take. There is one class of it."""

from __future__ import annotations

import numpy as np

from autoq.errors import InputError
from autoq.templates.sparse.patterns.pattern import Figures, Pattern
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.two_four import is_two_four, random_two_four

ALL = Figures(0, Structure(0, 0, 0))


def _figures(weight: np.ndarray, granularity: int) -> Figures:
    if not is_two_four(weight):
        raise InputError("the weight has more than two of four neighbours along k")
    return ALL


def _random(
    rng: np.random.Generator, figures: Figures, granularity: int, shape: tuple[int, int]
) -> np.ndarray:
    return random_two_four(rng, np.ones(shape, bool))


def _weights(figures: Figures, granularity: int, most: int) -> int:
    return -(-most // 2)


PATTERN = Pattern("2:4", _figures, _random, _weights)
