"""Groups of k in an order in which lanes that read them together meet different banks.

What a group is and where it is among those of a stage are free. Four lanes read k of four groups at
once, a place of each after the other, of words that should differ modulo four.
"""

from __future__ import annotations

import itertools

import numpy as np

from autoq.templates.cuda.pruned.arranged.order_kernel import PARTS, UNIT_BYTES
from autoq.templates.sparse.arrangement import NO_K
from autoq.templates.sparse.two_four import GROUP

_ORDERS = np.array(list(itertools.permutations(range(GROUP))))
_WORD_BYTES = 4


def in_banks(groups: np.ndarray, unit: int, size: int) -> np.ndarray:
    """An order of all places of the groups [groups, 4] of k, in stages of `unit` groups.

    It is int64 [groups, 4], places of a group in one group; values of x have `size` bytes.
    """
    each = UNIT_BYTES // size // GROUP
    places = np.arange(groups.size).reshape(groups.shape)
    classes = _classes(groups, size)
    made = np.empty_like(places)
    for start in range(0, len(groups), unit):
        own = slice(start, start + unit)
        stage, banks = places[own], classes[own]
        fours = (stage[four] for four in _fours(banks))
        ordered = np.stack([_together(four, classes.reshape(-1)) for four in fours])
        # [segments, groups of a lane, parts, 4] to where the parts lie.
        lying = ordered.reshape(-1, each, PARTS, GROUP).transpose(0, 2, 1, 3)
        made[own] = lying.reshape(unit, GROUP)
    return made


def _classes(groups: np.ndarray, size: int) -> np.ndarray:
    """Which of four banks the word of each k is in, -1 for none."""
    return np.where(groups == NO_K, -1, groups * size // _WORD_BYTES % PARTS)


def _fours(classes: np.ndarray) -> list[list[int]]:
    """Groups in fours that have about as many k in each class."""
    counts = (classes[..., None] == np.arange(PARTS)).sum(axis=1)
    left, made = list(range(len(classes))), []
    while left:
        four = [left.pop(0)]
        for _ in range(PARTS - 1):
            held = counts[four].sum(axis=0)
            four.append(left.pop(int(((held + counts[left]) ** 2).sum(axis=1).argmin())))
        made.append(four)
    return made


def _together(four: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Places of four groups, each in the order that leaves the fewest of a class in one place."""
    taken = np.zeros((GROUP, PARTS), np.int64)
    made = np.empty_like(four)
    for group, place in zip(four, made, strict=True):
        ways = classes[group][_ORDERS]
        clashes = np.where(ways < 0, 0, taken[np.arange(GROUP), np.maximum(ways, 0)]).sum(axis=1)
        best = int(clashes.argmin())
        place[:] = group[_ORDERS[best]]
        for at, bank in enumerate(ways[best]):
            if bank >= 0:
                taken[at, bank] += 1
    return made
