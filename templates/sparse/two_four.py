"""2:4 sparse weights: of every four neighbours along k at most two are not zero."""

from __future__ import annotations

import itertools

import numpy as np

GROUP, KEPT = 4, 2


def is_two_four(weight: np.ndarray) -> bool:
    """Whether a weight [n, k] is; a last group may be shorter."""
    return int(_groups(np.asarray(weight) != 0).sum(axis=-1).max(initial=0)) <= KEPT


def random_two_four(rng: np.random.Generator, weight: np.ndarray) -> np.ndarray:
    """A weight [n, k] without all but two of every four neighbours, drawn at random."""
    n, k = weight.shape
    pairs = np.array(list(itertools.combinations(range(GROUP), KEPT)))
    masks = (pairs[:, :, None] == np.arange(GROUP)).any(axis=1)
    kept = masks[rng.integers(0, len(masks), (n, -(-k // GROUP)))].reshape(n, -1)[:, :k]
    return np.where(kept, weight, np.zeros((), weight.dtype))


def _groups(values: np.ndarray) -> np.ndarray:
    n, k = values.shape
    return np.pad(values, ((0, 0), (0, -k % GROUP))).reshape(n, -1, GROUP)
