"""Diversity-aware simulated annealing, the paper's search.

Source: "Learning from Distinctive Candidates to Optimize Reduced-Precision Convolution Program
on Tensor Cores", sections 3.4 and 4.1: every point makes two mutants, half of all mutants are
kept by configuration diversity, and the kept ones compete with their parents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.cost_model import CostModel
from autoq.search.strategies.diversity import farthest_first
from autoq.search.strategies.history import History
from autoq.search.strategies.walk import BestSet, Challenge, Schedule, anneal
from autoq.search.trial import Trial

C = TypeVar("C")

# One in so many configurations is random: the paper's 31 predicted and 1 random.
_RANDOM_EVERY = 32


class DiverseAnnealing(Generic[C]):
    """Refits on everything told at each ask, walks, and returns the best unseen plus a random.

    Args:
        space: what is searched.
        seed: of everything random.
        schedule: of the walk over the model.
        nthread: threads of the cost model.
    """

    def __init__(
        self,
        space: SearchSpace[C],
        seed: int,
        schedule: Schedule | None = None,
        nthread: int = 1,
    ) -> None:
        self._history = History(space)
        self._rng = np.random.default_rng(seed)
        self._model = CostModel(seed, nthread=nthread)
        self._schedule = schedule or Schedule()
        self._points: np.ndarray | None = None
        self._fitted_on: dict[int, float] = {}

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations; all random until trials can be ranked."""
        self._refit()
        top: list[int] = []
        if self._model.fitted and n > 0:
            random = n // _RANDOM_EVERY + (self._rng.random() * _RANDOM_EVERY < n % _RANDOM_EVERY)
            top = self._predicted_best(n - random)
        return self._history.hand_out(self._history.fill(top, n, self._rng))

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Take in trials for the next refit."""
        self._history.add(trials)

    def _refit(self) -> None:
        if self._history.seconds == self._fitted_on:
            return
        codes, seconds = self._history.arrays()
        self._model.fit(self._history.space.encode_codes(codes), seconds)
        self._fitted_on = dict(self._history.seconds)

    def _predicted_best(self, n: int) -> list[int]:
        """The n best-predicted unseen codes of a walk that goes on where the last one ended."""
        if self._points is None:
            self._points = self._history.space.sample_codes(self._rng, self._schedule.points)
        best = BestSet(n, self._history.seen)
        self._points = anneal(
            self._points, self._score, self._propose, best, self._schedule, self._rng
        )
        return [code for code, _ in best.ranked()]

    def _score(self, codes: np.ndarray) -> np.ndarray:
        return self._model.predict(self._history.space.encode_codes(codes))

    def _propose(self, points: np.ndarray, rng: np.random.Generator) -> list[Challenge]:
        """Two mutants of each point; the more diverse half, as up to two challenges."""
        space = self._history.space
        mutants = space.mutate_codes(np.concatenate([points, points]), rng)
        scores = self._score(mutants)
        kept = farthest_first(space.knob_rows(mutants), len(points), scores)
        kept.sort()
        first, second = kept[kept < len(points)], kept[kept >= len(points)]
        return [
            Challenge(half % len(points), mutants[half], scores[half]) for half in (first, second)
        ]
