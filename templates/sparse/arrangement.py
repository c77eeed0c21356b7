"""An order of k in which a weight in tiles is 2:4: of every four neighbours a tile keeps two.

Which of k a tile keeps is the same for all of its columns, so that there are few sets, one for each
tile. Groups of four k are improved one after the other, many at once: each gives one of its k away,
and an assignment of these to the groups gives each the one that suits it best. What is left over
goes to places that no k has: a k may lie twice, and a tile has it in one of its places.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from autoq.templates.sparse.two_four import GROUP, KEPT

NO_K = -1
"""In place of a k where a group has fewer than four."""
_TOGETHER = 256
"""Groups that exchange k at once: an assignment takes the cube of that."""
_ROUNDS, _TIMES = 25, 4
"""Of exchanges before k are laid twice, and how often that is tried with so many groups."""
_FULL = 0.1
"""What a place in a group costs that leaves it full, where one too many costs 1."""


@dataclass(frozen=True)
class Arrangement:
    """Groups of four k of which every tile has two at most.

    k: int64 [groups, 4], NO_K for none. used: bool [tiles, groups, 4] where a tile has each k that
    it keeps; it is one place of each.
    """

    k: np.ndarray
    used: np.ndarray


def arrange(kept: np.ndarray, unit: int) -> Arrangement:
    """An arrangement of what tiles keep, bool [tiles, k].

    k that no tile keeps are in no group. The groups are a multiple of `unit`, at least one unit,
    and no more than put every k beside one other.
    """
    return _arranged(np.packbits(kept, axis=1).tobytes(), kept.shape, unit)


@functools.lru_cache(maxsize=8)
def _arranged(bits: bytes, shape: tuple[int, int], unit: int) -> Arrangement:
    """`arrange`, once for all configurations of a weight."""
    packed = np.frombuffer(bits, np.uint8).reshape(shape[0], -1)
    kept = np.unpackbits(packed, axis=1, count=shape[1]).astype(bool)
    those = np.flatnonzero(kept.any(axis=0))
    masks = np.zeros((len(those) + 1, len(kept)), np.float32)
    masks[:-1] = kept[:, those].T
    least = max(len(those), GROUP // KEPT * int(kept.sum(axis=1).max(initial=0)))
    units = max(1, -(-least // (GROUP * unit)))
    most = max(1, -(-len(those) // (KEPT * unit)))
    rng = np.random.default_rng(0)
    groups, used = _pairs(masks, most * unit), None
    if units < most:
        groups = _begun(masks, units * unit, rng)
    while units < most and used is None:
        for _ in range(_TIMES):
            _exchange(masks, groups, rng)
            used = _laid_twice(masks, groups)
            if used is not None:
                break
        else:
            units += 1
            groups = np.concatenate([groups, np.full((unit, GROUP), len(those))])
    if used is None:
        groups = _pairs(masks, most * unit)
        used = masks[groups] > 0
    k = np.where(groups < len(those), np.append(those, NO_K)[groups], NO_K)
    found = Arrangement(k, np.ascontiguousarray(used.transpose(2, 0, 1)))
    for array in (found.k, found.used):
        array.flags.writeable = False
    return found


def _pairs(masks: np.ndarray, groups: int) -> np.ndarray:
    """Two k in each group, which suits every weight."""
    none = len(masks) - 1
    made = np.full((groups, GROUP), none)
    made[:, :KEPT] = np.minimum(np.arange(groups * KEPT).reshape(-1, KEPT), none)
    return made


def _begun(masks: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """So many groups, all k one after the other to where they suit."""
    none = len(masks) - 1
    places = np.full(count * GROUP, none)
    places[:none] = np.arange(none)
    given = rng.permutation(places).reshape(GROUP, count)
    groups = np.empty((count, GROUP), np.int64)
    held = np.zeros((count, masks.shape[1]), np.float32)
    for place, those in enumerate(given):
        for start in range(0, count, _TOGETHER):
            own = slice(start, start + _TOGETHER)
            groups[own, place] = those[own][_suited(held[own], masks[those[own]])]
        held += masks[groups[:, place]]
    return groups


def _suited(held: np.ndarray, offered: np.ndarray) -> np.ndarray:
    """Which of the offered masks [n, tiles] each group takes beside what it holds [n, tiles]."""
    from scipy.optimize import linear_sum_assignment

    costs = (held >= KEPT) + np.float32(_FULL) * (held == KEPT - 1)
    return linear_sum_assignment(costs @ offered.T)[1]


def _exchange(masks: np.ndarray, groups: np.ndarray, rng: np.random.Generator) -> None:
    """Exchange k between groups of which tiles keep too many and others, some times."""
    held = masks[groups].sum(axis=1)
    for _ in range(_ROUNDS):
        over = np.flatnonzero((held > KEPT).any(axis=1))
        if not len(over):
            return
        bad = rng.permutation(over)[: _TOGETHER // 2]
        others = rng.permutation(np.setdiff1d(np.arange(len(groups)), bad))
        own = np.concatenate([bad, others[: _TOGETHER - len(bad)]])
        excess = (masks[groups[own]] * (held[own] > KEPT)[:, None]).sum(axis=2)
        place = (excess + rng.random(excess.shape)).argmax(axis=1)
        given = groups[own, place]
        left = held[own] - masks[given]
        taken = given[_suited(left, masks[given])]
        groups[own, place] = taken
        held[own] = left + masks[taken]


def _laid_twice(masks: np.ndarray, groups: np.ndarray) -> np.ndarray | None:
    """Where tiles have their k, bool [groups, 4, tiles], with what is too much in empty places.

    The groups get these k as well. None, and no change, where there are too few empty places.
    """
    none, made = len(masks) - 1, groups.copy()
    used = masks[groups] > 0
    held = used.sum(axis=1)
    if np.maximum(held - KEPT, 0).sum() > GROUP * (made == none).sum():
        return None
    for group in np.flatnonzero((held > KEPT).any(axis=1)):
        while (over := held[group] > KEPT).any():
            place = int((used[group] & over).sum(axis=1).argmax())
            tiles = used[group, place] & over
            suits = (made == none).any(axis=1) * (tiles & (held < KEPT)).sum(axis=1)
            other = int(suits.argmax())
            if not suits[other]:
                return None
            tiles &= held[other] < KEPT
            free = int(np.flatnonzero(made[other] == none)[0])
            made[other, free] = groups[group, place]
            used[other, free], held[other] = tiles, held[other] + tiles
            used[group, place] &= ~tiles
            held[group] -= tiles
    groups[:] = made
    return used
