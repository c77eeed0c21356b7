"""MetaSchedule's evolutionary search: mutants of measured and random candidates, scored by trees.

Source: TVM's meta_schedule/search_strategy/evolutionary_search.cc and cost_model/xgb_model.py. Each
round evolves a population for a few generations, in which parents are drawn by their predicted
score, and measures the best it met beside some random ones. Its mutators change one decision, as
ours change one knob; it has no crossover. Two things differ: trees are fitted to the squared error
of the normalised speed where MetaSchedule sums that over parts of a program, and their number is
fixed where it stops early on a validation set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.cost_model import CostModel
from autoq.search.strategies.history import History
from autoq.search.strategies.walk import BestSet
from autoq.search.trial import Trial

C = TypeVar("C")

_TREES = {"max_depth": 10, "gamma": 0.001, "min_child_weight": 0, "eta": 0.2}
# Trials before predictions count; the scores before are random.
_WARM_UP = 100


class MetaSchedule(Generic[C]):
    """Evolves a population over a cost model, with the parameters of MetaSchedule's default.

    Args:
        space: what is searched.
        seed: of everything random.
        population: candidates of a generation.
        generations: of each round.
        measured_share: of the first generation, what comes from the fastest trials.
        mutation: probability that a drawn parent is mutated and not kept.
        random_share: of what is measured, the share that is random.
    """

    batch = 64
    """Configurations that MetaSchedule measures in a round."""

    def __init__(
        self,
        space: SearchSpace[C],
        seed: int,
        population: int = 512,
        generations: int = 3,
        measured_share: float = 0.2,
        mutation: float = 0.85,
        random_share: float = 0.05,
    ) -> None:
        self._history = History(space)
        self._rng = np.random.default_rng(seed)
        self._model = CostModel(seed, "regression", rounds=100, trees=_TREES)
        self._population = population
        self._generations = generations
        self._measured_share = measured_share
        self._mutation = mutation
        self._random_share = random_share

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations of a round of evolution, some of them random."""
        if n < 1:
            return []
        random = int(self._rng.binomial(n, self._random_share))
        self._refit()
        best = self._evolved(n - random)
        return self._history.hand_out(self._history.fill(best, n, self._rng))

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Take in trials for the next round."""
        self._history.add(trials)

    def _refit(self) -> None:
        codes, seconds = self._history.arrays()
        if len(codes) >= _WARM_UP:
            self._model.fit(self._history.space.encode_codes(codes), seconds)

    def _evolved(self, n: int) -> list[int]:
        """The n best unseen codes of all generations."""
        space, rng = self._history.space, self._rng
        population = self._first()
        best = BestSet(n, self._history.seen)
        for generation in range(self._generations + 1):
            scores = self._score(population)
            best.offer(population, scores)
            if generation == self._generations or not len(population):
                break
            weights = np.maximum(scores, 0) + 1e-8
            parents = rng.choice(population, self._population, p=weights / weights.sum())
            mutated = rng.random(len(parents)) < self._mutation
            population = parents.copy()
            population[mutated] = space.mutate_codes(parents[mutated], rng)
            population = np.unique(population)
        return [code for code, _ in best.ranked()]

    def _first(self) -> np.ndarray:
        """The first generation: the fastest trials and random candidates."""
        codes, seconds = self._history.arrays()
        order = np.argsort(seconds, kind="stable")[: int(self._population * self._measured_share)]
        fastest = codes[order[np.isfinite(seconds[order])]]
        random = self._history.space.sample_codes(self._rng, self._population - len(fastest))
        return np.unique(np.concatenate([fastest, random]))

    def _score(self, codes: np.ndarray) -> np.ndarray:
        if not self._model.fitted:
            return self._rng.random(len(codes))
        return self._model.predict(self._history.space.encode_codes(codes))
