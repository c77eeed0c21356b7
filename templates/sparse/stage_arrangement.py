"""An order of k in which tiles are 2:4 and leave out whole stages of k.

Where tiles keep less than half of all k, places would stay empty in every stage. Instead a stage
takes k that some of the blocks do not need at all, so that these leave it out, and fills the places
of the others.
"""

from __future__ import annotations

import functools

import numpy as np

from autoq.templates.sparse.arrangement import NO_K, Arrangement, arrange
from autoq.templates.sparse.two_four import GROUP, KEPT

_SPARE = 0.45
"""The share of k of the fullest tile above which no stages can be left out."""
_TRIALS = 16
"""Sets of blocks that are tried for each stage."""
_NOISE = 0.15
"""Of how many k a block does without, when a set is drawn."""
_FILLED = 0.97
"""Of a stage's places for a tile, how many are given: with more no order is found."""


def arrange_stages(kept: np.ndarray, units: np.ndarray, unit: int, most: int) -> Arrangement:
    """An arrangement of what tiles keep, bool [tiles, k], of which units need few stages.

    units: bool [units, tiles], the tiles that are multiplied together with one row of x. A stage is
    `unit` groups, and there are `most` groups at most.
    """
    bits = np.packbits(kept, axis=1).tobytes(), np.packbits(units, axis=1).tobytes()
    return _arranged(*bits, (len(units), *kept.shape), unit, most)


def stages_needed(units: np.ndarray, arrangement: Arrangement, unit: int) -> np.ndarray:
    """bool [units, stages] which stages each unit multiplies, at least one."""
    used = arrangement.used
    of_tiles = used.reshape(len(used), used.shape[1] // unit, -1).any(axis=-1)
    needed = (units[:, :, None] & of_tiles).any(axis=1)
    needed[~needed.any(axis=1), 0] = True
    return needed


@functools.lru_cache(maxsize=8)
def _arranged(
    kept_bits: bytes, units_bits: bytes, shape: tuple[int, int, int], unit: int, most: int
) -> Arrangement:
    """`arrange_stages`, once for all configurations with the same units."""
    count, tiles, k = shape
    kept, units = (
        np.unpackbits(np.frombuffer(bits, np.uint8).reshape(rows, -1), axis=1, count=columns) > 0
        for bits, rows, columns in ((kept_bits, tiles, k), (units_bits, count, tiles))
    )
    found = arrange(kept, unit)
    if kept.sum(axis=1).max(initial=0) > _SPARE * kept.any(axis=0).sum():
        return found
    staged = _staged(kept, units, unit)
    if len(staged.k) > most:
        return found
    costs = [int(stages_needed(units, one, unit).sum()) for one in (found, staged)]
    return staged if costs[1] < costs[0] else found


def _staged(kept: np.ndarray, units: np.ndarray, unit: int) -> Arrangement:
    """One stage after the other, each for the units that fill it best."""
    rng = np.random.default_rng(0)
    needs = units.astype(np.int64) @ kept > 0
    left = np.flatnonzero(kept.any(axis=0))
    stages: list[Arrangement] = []
    while len(left) or not stages:
        drawn = [_drawn(kept, needs, left, unit, rng) for _ in range(_TRIALS)]
        _, chosen = max(drawn, key=lambda pair: pair[0])
        stages.append(_one_stage(kept, chosen, unit))
        left = np.setdiff1d(left, stages[-1].k)
    return Arrangement(
        np.concatenate([one.k for one in stages]),
        np.concatenate([one.used for one in stages], axis=1),
    )


def _drawn(
    kept: np.ndarray, needs: np.ndarray, left: np.ndarray, unit: int, rng: np.random.Generator
) -> tuple[float, np.ndarray]:
    """k of a stage that a random set of units does without, and how much they give to others."""
    fits, without = left, np.zeros(len(needs), bool)
    while not without.all():
        spare = np.where(without, -1, (~needs[:, fits]).sum(axis=1))
        chosen = int((spare * (1 + _NOISE * rng.random(len(needs)))).argmax())
        if spare[chosen] < min(unit * GROUP, len(left)):
            break
        without[chosen] = True
        fits = fits[~needs[chosen, fits]]
    fullest = fits[np.argsort(-kept[:, fits].sum(axis=0) - rng.random(len(fits)))]
    held, places = np.zeros(len(kept), np.int64), _FILLED * unit * KEPT
    taken: list[int] = []
    for k in fullest:
        after = held + kept[:, k]
        if (after <= places).all():
            held = after
            taken.append(k)
            if len(taken) == unit * GROUP:
                break
    return held.sum() / max(1, (~without).sum()), np.array(taken, np.int64)


def _one_stage(kept: np.ndarray, chosen: np.ndarray, unit: int) -> Arrangement:
    """One stage of the chosen k, without those for which there is no place."""
    while True:
        found = arrange(kept[:, chosen], unit)
        if len(found.k) == unit:
            k = np.where(found.k != NO_K, np.append(chosen, NO_K)[found.k], NO_K)
            return Arrangement(k, found.used)
        chosen = chosen[: -max(1, len(chosen) // 32)]
