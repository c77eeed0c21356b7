"""What a Gaussian process of the trials would measure next, and what a prior would before them.

How far a prior is to be believed the trials themselves tell: part of each batch trusts it as far as
they make likely, part wholly and part not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from autoq.search.strategies.climbing import Climber
from autoq.search.strategies.gaussian import Beliefs, Ranks, Sites, fitted, unmeasured
from autoq.search.strategies.prior_mean import PriorMean

C = TypeVar("C")

# So many trials a process is given at most, this part of them the fastest: it takes time that grows
# with their square and more.
_GIVEN, _FAST_PART = 192, 2 / 3
# What chooses in turn: weight of a prior (None for the likeliest of _WEIGHTS), and deviations by
# which what is not known yet is hoped to be faster.
_ALONE = ((0.0, 0.0), (0.0, 0.5), (0.0, 1.0), (0.0, 1.5))
_INFORMED = ((None, 0.0), (1.0, 0.5), (None, 0.5), (0.0, 0.5))
_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
# A model of records before anything is measured: deviation of its errors, and how far they reach.
_DEVIATION, _REACH = 0.1, 1.4


class ProcessChoice(Generic[C]):
    """Chooses codes of a search.

    Args:
        climber: of the search.
        prior_mean: what is believed before anything is measured.
    """

    def __init__(self, climber: Climber[C], prior_mean: PriorMean[C]) -> None:
        self._climber, self._prior_mean = climber, prior_mean
        self._ranks: Ranks | None = None

    def before_trials(self, members: Sequence[int], n: int) -> list[int]:
        """At most n unseen codes of members, the best by a prior that errs alike for the alike."""
        believed = self._prior_mean.of
        codes, _ = self._climber.climbed(members, lambda codes: believed(codes)[None])
        codes = self._unseen(codes)
        beliefs = unmeasured(self._sites(codes), _DEVIATION, _REACH)
        return _taken(codes, [beliefs], [(0, 1.0)] * n)

    def chosen(self, told: np.ndarray, targets: np.ndarray, n: int) -> list[int]:
        """At most n unseen codes that may be the fastest, given codes [m] and log seconds [m]."""
        given = self._given(targets)
        turns, weights = (_INFORMED, _WEIGHTS) if self._prior_mean.given else (_ALONE, (0.0,))
        found = fitted(self._sites(told[given]), targets[given], weights)
        fits = {fit.weight: fit for fit in found}
        likeliest = max(fits.values(), key=lambda fit: fit.likelihood).weight
        taking = [(likeliest if weight is None else weight, doubt) for weight, doubt in turns]
        used = sorted({weight for weight, _ in taking})

        def scored(codes: np.ndarray) -> np.ndarray:
            sites = self._sites(codes)
            found = {weight: fits[weight].beliefs(sites) for weight in used}
            return np.array([found[weight].bound(doubt) for weight, doubt in taking])

        codes, _ = self._climber.climbed(range(self._climber.space.member_count), scored)
        codes = self._unseen(codes)
        sites = self._sites(codes)
        beliefs = [fits[weight].beliefs(sites) for weight in used]
        places = [taking[(len(told) + i) % len(taking)] for i in range(n)]
        return _taken(codes, beliefs, [(used.index(w), doubt) for w, doubt in places])

    def _given(self, targets: np.ndarray) -> np.ndarray:
        """Rows of the trials that a process is given: all, or the fastest and some of the rest."""
        if len(targets) <= _GIVEN:
            return np.arange(len(targets))
        order = np.argsort(targets, kind="stable")
        fast = int(_GIVEN * _FAST_PART)
        rest = self._climber.rng.permutation(order[fast:])[: _GIVEN - fast]
        return np.concatenate([order[:fast], rest])

    def _sites(self, codes: np.ndarray) -> Sites:
        """Codes as a process sees them."""
        space = self._climber.space
        if self._ranks is None:
            reference = space.encode_codes(self._climber.pool())
            self._ranks = Ranks(reference, self._prior_mean.estimate)
        points = self._ranks.of(space.encode_codes(codes))
        return Sites(points, space.members_of(codes), self._prior_mean.of(codes))

    def _unseen(self, codes: np.ndarray) -> np.ndarray:
        return np.array(self._climber.history.unseen(codes), np.int64)


def _taken(
    codes: np.ndarray, beliefs: Sequence[Beliefs], places: Sequence[tuple[int, float]]
) -> list[int]:
    """The code of least bound for each place: which of the beliefs, and how many deviations."""
    chosen: list[int] = []
    for which, doubt in places[: len(codes)]:
        bounds = beliefs[which].bound(doubt)
        bounds[chosen] = np.inf
        chosen.append(int(np.argmin(bounds)))
        for one in beliefs:
            one.take(chosen[-1])
    return [int(code) for code in codes[chosen]]
