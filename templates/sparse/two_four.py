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


def group_starts(nonzero: np.ndarray) -> np.ndarray:
    """Where groups of rows of a tile [rows, columns] begin, int64, of what is not zero.

    A group has up to four consecutive rows, of which a column keeps two at most. Consecutive rows
    go together as far as that allows, which gives the fewest groups. Any two rows are a group.
    """
    rows = len(nonzero)
    counts = np.cumsum(np.pad(nonzero, ((1, GROUP), (0, 0))), axis=0, dtype=np.int32)
    fit_four, fit_three = (
        (counts[length : length + rows] - counts[:rows]).max(axis=1, initial=0) <= KEPT
        for length in (GROUP, GROUP - 1)
    )
    starts, row = [], 0
    while row < rows:
        starts.append(row)
        row += GROUP if fit_four[row] else GROUP - 1 if fit_three[row] else KEPT
    return np.array(starts, np.int64)


def _groups(values: np.ndarray) -> np.ndarray:
    n, k = values.shape
    return np.pad(values, ((0, 0), (0, -k % GROUP))).reshape(n, -1, GROUP)
