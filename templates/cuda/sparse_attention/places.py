"""Where keys of a slot lie in it, so that those that a group sees differ modulo 8.

Rows that are read together lie in different banks where they differ modulo 8. Of keys at random a
group sees more of one residue than of another, and the steps of a time have to take what there is:
a key's residue is chosen instead, so that each group sees about as many of each.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.sparse_attention.eights import ROWS
from autoq.templates.sparse.vector_matrix import VectorMatrix

_MOST_GROUPS = 2048
"""Groups that are looked at; of more, as many at equal distances."""

_CARRIED, _KEPT = 0.7, 0.5
"""Of what groups have seen in the slot before, and in those before that: steps take keys of several
slots.
"""


def places_of(mask: VectorMatrix, keys: int, slot: int) -> np.ndarray:
    """The place of each of `keys` keys, whole slots of them; each stays in its slot."""
    places = np.arange(keys)
    groups = _groups(mask)
    before = np.zeros((len(groups), ROWS), np.float32)
    for first in range(0, keys, slot):
        seen = _seen(mask, groups, first, slot)
        residues, counts = _residues(seen, _CARRIED * before)
        by_residue = np.argsort(residues, kind="stable").reshape(ROWS, -1)
        places[first + by_residue] = first + np.arange(slot).reshape(-1, ROWS).T
        before = counts + _KEPT * before
    return places


def _groups(mask: VectorMatrix) -> np.ndarray:
    """Numbers of the groups that are looked at."""
    count = len(mask.lengths)
    return np.arange(count)[:: -(-count // _MOST_GROUPS)]


def _seen(mask: VectorMatrix, groups: np.ndarray, first: int, slot: int) -> np.ndarray:
    """Which keys of a slot each group sees, float32 [groups, slot]."""
    seen = np.zeros((len(groups), slot), np.float32)
    for row, group in enumerate(groups):
        own = mask.indices[mask.pointers[group] : mask.pointers[group + 1]]
        inside = own[np.searchsorted(own, first) : np.searchsorted(own, first + slot)]
        seen[row, inside - first] = 1
    return seen


def _residues(seen: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The residue of each key of a slot, as many of each, and how many each group sees, [groups,
    8], beside those that it saw before.

    Keys take the residue of which the groups that see them have fewest, one after another; then
    each changes places with the one with which that is worth most.
    """
    slot = seen.shape[1]
    counts = np.zeros_like(before)
    left = np.full(ROWS, slot // ROWS)
    residues = np.empty(slot, np.int64)
    columns = np.ascontiguousarray(seen.T)
    for key, column in enumerate(columns):
        crowd = np.where(left > 0, column @ (before + counts), np.inf)
        residues[key] = own = int(np.argmin(crowd))
        left[own] -= 1
        counts[:, own] += column
    shared = columns @ seen
    alone = np.diagonal(shared)
    crowds = (before + counts).T @ seen
    for key in range(slot):
        own = residues[key]
        # What all groups' squares of counts change by, halved, where a key changes places.
        change = crowds[residues, key] - crowds[own, key] + alone[key]
        change += crowds[own] - crowds[residues, np.arange(slot)] + alone - 2 * shared[key]
        change[residues == own] = 0
        other = int(np.argmin(change))
        if change[other] >= 0:
            continue
        for residue, gone, come in ((own, key, other), (residues[other], other, key)):
            counts[:, residue] += columns[come] - columns[gone]
            crowds[residue] += shared[come] - shared[gone]
        residues[key], residues[other] = residues[other], own
    return residues, counts
