"""AutoTVM's tuner: simulated annealing on a ranking model refitted every 64 measurements.

Source: autotvm/tuner/model_based_tuner.py and sa_model_optimizer.py, v0.10. One thing differs:
the number of trees is fixed where AutoTVM stops by recall on the training set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.cost_model import CostModel
from autoq.search.strategies.diversity import cover_values
from autoq.search.strategies.history import History
from autoq.search.strategies.walk import BestSet, Challenge, Schedule, anneal
from autoq.search.trial import Trial

C = TypeVar("C")


class Annealing(Generic[C]):
    """AutoTVM's baseline, its weaknesses included.

    Args:
        space: what is searched.
        seed: of everything random.
        diversity_ratio: when set, AutoTVM's own filter picks each plan out of this many times
            as many candidates.
        plan_size: measurements between refits; the last 5% of each plan are random.
        schedule: of the walk over the model.
    """

    def __init__(
        self,
        space: SearchSpace[C],
        seed: int,
        diversity_ratio: int | None = None,
        plan_size: int = 64,
        schedule: Schedule | None = None,
    ) -> None:
        self._history = History(space)
        self._rng = np.random.default_rng(seed)
        self._model = CostModel(seed)
        self._diversity_ratio = diversity_ratio
        self._plan_size = plan_size
        self._schedule = schedule or Schedule()
        self._points: np.ndarray | None = None
        self._plan: list[int] = []
        self._fits = 0

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations: from the plan, then random."""
        random_share = int(0.05 * self._plan_size)
        wanted: list[int] = []
        while len(wanted) < n and len(self._plan) > random_share:
            code = self._plan.pop(0)
            if code not in self._history.seen:
                wanted.append(code)
        return self._history.hand_out(self._history.fill(wanted, n, self._rng))

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Take in trials; each further plan_size of them refits the model and plans anew."""
        self._history.add(trials)
        told = len(self._history.seconds)
        if told >= self._plan_size * (self._fits + 1) and self._history.successes:
            self._refit()
            self._fits = told // self._plan_size

    def _refit(self) -> None:
        space = self._history.space
        codes, seconds = self._history.arrays()
        self._model.fit(space.encode_codes(codes), seconds)
        best = BestSet(self._plan_size * (self._diversity_ratio or 1), self._history.seen)
        if self._points is None:
            self._points = space.sample_codes(self._rng, self._schedule.points)
        self._points = anneal(
            self._points, self._score, self._propose, best, self._schedule, self._rng
        )
        # AutoTVM's heap drops negative predictions, which a ranking margin can well be.
        self._plan = [code for code, score in best.ranked() if score >= 0]
        if self._diversity_ratio:
            knobs = space.knob_rows(np.array(self._plan, dtype=np.int64)).tolist()
            self._plan = [self._plan[i] for i in cover_values(knobs, self._plan_size)]

    def _score(self, codes: np.ndarray) -> np.ndarray:
        return self._model.predict(self._history.space.encode_codes(codes))

    def _propose(self, points: np.ndarray, rng: np.random.Generator) -> list[Challenge]:
        mutants = self._history.space.mutate_codes(points, rng)
        return [Challenge(np.arange(len(points)), mutants, self._score(mutants))]
