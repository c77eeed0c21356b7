"""An order of k in which a weight in tiles is 2:4: of every four neighbours a tile keeps two.

Which of k a tile keeps is the same for all of its columns, so that there are few sets, one for each
tile. Groups of four k are improved one after the other, many at once: each gives one of its k away,
and an assignment of these to the groups gives each the one that suits it best.
"""

from __future__ import annotations

import functools

import numpy as np

from autoq.templates.sparse.two_four import GROUP, KEPT

NO_K = -1
"""In place of a k where a group has fewer than four."""
_TOGETHER = 256
"""Groups that exchange k at once: an assignment takes the cube of that."""
_ROUNDS = 100
"""Of exchanges before more groups are made."""
_FULL = 0.02
"""What a place in a group costs that leaves it full, where one too many costs 1."""


def arrange(kept: np.ndarray, unit: int) -> np.ndarray:
    """Groups int64 [groups, 4] of k, NO_K for none, of which every tile keeps two at most.

    kept: bool [tiles, k]. k that no tile keeps are in no group. The groups are a multiple of
    `unit`, at least one unit, and no more than put every k beside one other.
    """
    return _arranged(np.packbits(kept, axis=1).tobytes(), kept.shape, unit)


@functools.lru_cache(maxsize=8)
def _arranged(bits: bytes, shape: tuple[int, int], unit: int) -> np.ndarray:
    """`arrange`, once for all configurations of a weight; the groups are not to be written to."""
    packed = np.frombuffer(bits, np.uint8).reshape(shape[0], -1)
    kept = np.unpackbits(packed, axis=1, count=shape[1]).astype(bool)
    used = np.flatnonzero(kept.any(axis=0))
    masks = np.zeros((len(used) + 1, len(kept)), np.float32)
    masks[:-1] = kept[:, used].T
    least = max(len(used), GROUP // KEPT * int(kept.sum(axis=1).max(initial=0)))
    units = max(1, -(-least // (GROUP * unit)))
    most = max(1, -(-len(used) // (KEPT * unit)))
    rng = np.random.default_rng(0)
    groups = np.full((0, GROUP), len(used))
    while units < most:
        groups = _grown(masks, groups, units * unit, rng)
        if _improve(masks, groups, rng):
            break
        units += 1
    else:
        groups = _pairs(len(used), most * unit)
    found = np.where(groups < len(used), np.append(used, NO_K)[groups], NO_K)
    found.flags.writeable = False
    return found


def _pairs(count: int, groups: int) -> np.ndarray:
    """Two k in each group, which suits every weight."""
    made = np.full((groups, GROUP), count)
    made[:, :KEPT] = np.minimum(np.arange(groups * KEPT).reshape(-1, KEPT), count)
    return made


def _grown(
    masks: np.ndarray, groups: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """So many groups: all k one after the other to where they suit, or some more without any."""
    none = len(masks) - 1
    if len(groups):
        return np.concatenate([groups, np.full((count - len(groups), GROUP), none)])
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


def _improve(masks: np.ndarray, groups: np.ndarray, rng: np.random.Generator) -> bool:
    """Exchange k between groups until no tile keeps more than two of any; whether that is so."""
    held = masks[groups].sum(axis=1)
    for _ in range(_ROUNDS):
        over = np.flatnonzero((held > KEPT).any(axis=1))
        if not len(over):
            return True
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
    return not (held > KEPT).any()
