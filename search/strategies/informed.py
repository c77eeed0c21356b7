"""The search that begins with what is known, and corrects it by a Gaussian process of its trials.

Ours, beyond the paper. A random first batch is the greatest waste of a short search: what a
template estimates of its own time, or a model of records, puts a few configurations above nearly
all others. From the first trials on a Gaussian process (`gaussian.py`) learns times from features,
the estimate among them, or what corrects a model of records, and climbs to what may be fast by it
(`process_choice.py`). Batches are small, since each makes the next one better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.climbing import Climber
from autoq.search.strategies.history import History
from autoq.search.strategies.ideas import Ideas
from autoq.search.strategies.prior_mean import Prior, PriorMean
from autoq.search.strategies.process_choice import ProcessChoice
from autoq.search.strategies.shares import shares_of
from autoq.search.strategies.trees_choice import TreesChoice
from autoq.search.trial import Trial

C = TypeVar("C")

# Log of how much slower than the slowest success a failure counts.
_FAILURE = 0.7
_ALL = Ideas()


class Informed(Generic[C]):
    """Follows a prior for a first batch, then a Gaussian process of all trials.

    Args:
        space: what is searched.
        seed: of everything random.
        prior: what is known beforehand; the templates' own estimates by default, which are compared
            within a member only.
        ideas: what the search does; all of it by default.
    """

    def __init__(
        self, space: SearchSpace[C], seed: int, prior: Prior | None = None, ideas: Ideas = _ALL
    ) -> None:
        self._space, self._ideas = space, ideas
        self._history = History(space)
        self._rng = np.random.default_rng(seed)
        self._climber = Climber(space, self._rng, self._history, ideas.climbs)
        self._prior_mean = PriorMean(space, prior, self._climber.pool)
        self._process = ProcessChoice(self._climber, self._prior_mean)
        self._learner: ProcessChoice[C] | TreesChoice[C] = self._process
        if not ideas.gaussian:
            self._learner = TreesChoice(self._climber, self._prior_mean, ideas.models, seed)

    @property
    def batch(self) -> int:
        """Configurations to ask for at once, where the caller is free to choose."""
        few = len(self._history.seconds) < self._ideas.batch
        return min(self._ideas.first, self._ideas.batch) if few else self._ideas.batch

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations."""
        if n < 1:
            return []
        chosen: list[int] = []
        if len(self._history.seconds) >= self._ideas.first and self._history.successes:
            chosen = self._learner.chosen(*self._trials(), n)
        elif self._ideas.prior:
            chosen = self._by_prior(n)
        return self._history.hand_out(self._history.fill(chosen, n, self._rng))

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Take in trials; each further batch of them is learnt from at the next question."""
        self._history.add(trials)

    def _by_prior(self, n: int) -> list[int]:
        """The best by the prior and its doubts: of each member its share, or of all together.

        A prior that was given ranks the members that it knows together; each of the others has its
        share, the best by its estimates, since nothing else would ever try it.
        """
        apart = self._prior_mean.strangers
        together = [i for i in range(self._space.member_count) if i not in apart]
        if not apart:
            return self._process.before_trials(together, n)
        shares = shares_of(self._history, n)
        chosen = []
        if together:
            chosen += self._process.before_trials(together, int(shares[together].sum()))
        for member in apart:
            chosen += self._by_estimate(member, int(shares[member]))
        return chosen

    def _by_estimate(self, member: int, n: int) -> list[int]:
        """The best of a member by its doubted estimates."""
        if not n:
            return []
        estimated = self._prior_mean.estimated
        codes, guesses = self._climber.climbed([member], lambda codes: estimated(codes)[None])
        doubted = guesses[0] + self._ideas.doubt * self._rng.standard_normal(len(codes))
        return self._history.unseen(codes[np.argsort(doubted, kind="stable")])[:n]

    def _trials(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes of the trials, and their log seconds."""
        codes, seconds = self._history.arrays()
        worked = np.isfinite(seconds)
        logs = np.log(seconds, where=worked, out=np.zeros(len(codes)))
        logs[~worked] = logs[worked].max() + _FAILURE
        return codes, logs
