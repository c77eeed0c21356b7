"""The default search: shared out over templates, led by their estimates, near what is known.

Ours, beyond the paper. Random first batches are the greatest waste of a short search: a template's
own estimate puts its default's neighbours and other shapes of tiles above nearly all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.estimated_model import EstimatedModel
from autoq.search.strategies.history import History
from autoq.search.strategies.shares import shares_of
from autoq.search.trial import Trial

C = TypeVar("C")

# Of each member: random configurations that are scored, and fastest trials to climb from.
_POOL = 256
_FASTEST = 16
# Climbing: so often the best so many are mutated.
_CLIMBS, _CLIMBERS = 6, 32


class Guided(Generic[C]):
    """Climbs a model of the estimates and trials, in each member of a union by its share.

    Until something worked there is nothing to climb from, and configurations are random; the
    tuner tells the defaults first.

    Args:
        space: what is searched.
        seed: of everything random.
        nthread: threads of the cost model.
    """

    def __init__(self, space: SearchSpace[C], seed: int, nthread: int = 1) -> None:
        self._space = space
        self._history = History(space)
        self._rng = np.random.default_rng(seed)
        self._model = EstimatedModel(space, seed, nthread=nthread)
        self._pools: dict[int, np.ndarray] = {}
        self._fitted_on: dict[int, float] = {}

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations; random until one has worked."""
        chosen: list[int] = []
        if self._history.successes and n > 0:
            self._refit()
            for member, share in enumerate(shares_of(self._history, n).tolist()):
                chosen += self._best(member, share) if share else []
        return self._history.hand_out(self._history.fill(chosen, n, self._rng))

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Take in trials for the next refit."""
        self._history.add(trials)

    def _refit(self) -> None:
        if self._history.seconds != self._fitted_on:
            self._model.fit(*self._history.arrays())
            self._fitted_on = dict(self._history.seconds)

    def _best(self, member: int, n: int) -> list[int]:
        """Up to n unseen codes of a member, from each model in turn the best that is left.

        Of codes that the estimate cannot tell apart one is enough until its time is known, so
        others come last.
        """
        models = self._rng.permutation(self._model.size)[:n].tolist()
        rankings = [iter(self._climbed(member, model)) for model in models]
        chosen: dict[int, float] = {}
        twins: list[int] = []
        while rankings and len(chosen) < n:
            for ranking in list(rankings):
                for code, guess in ranking:
                    if code not in chosen and (not guess or guess not in chosen.values()):
                        chosen[code] = guess
                        break
                    twins.append(code)
                else:
                    rankings.remove(ranking)
        return list(dict.fromkeys([*chosen, *twins]))[:n]

    def _climbed(self, member: int, model: int) -> list[tuple[int, float]]:
        """Unseen codes of a member with their guesses, best first by one model.

        The model is climbed by mutation, from random codes and the fastest trials.
        """
        space = self._space
        if member not in self._pools:
            self._pools[member] = space.sample_member(member, self._rng, _POOL)
        fastest = self._fastest(member)
        codes = np.union1d(self._pools[member], fastest)
        scores = self._model.predict(codes, model)
        for _ in range(_CLIMBS):
            best = codes[np.argsort(scores, kind="stable")[:_CLIMBERS]]
            mutants = space.mutate_codes(np.concatenate([best, fastest]), self._rng)
            mutants = np.setdiff1d(mutants[space.members_of(mutants) == member], codes)
            codes = np.concatenate([codes, mutants])
            scores = np.concatenate([scores, self._model.predict(mutants, model)])
        ranked = codes[np.argsort(scores, kind="stable")]
        guesses = self._model.guess(ranked).round(3).tolist()
        pairs = zip(ranked.tolist(), guesses, strict=True)
        return [(code, guess) for code, guess in pairs if code not in self._history.seen]

    def _fastest(self, member: int) -> np.ndarray:
        """Codes of the fastest trials of a member, fastest first: int64 [at most 16]."""
        codes, seconds = self._history.arrays()
        mine = (self._space.members_of(codes) == member) & np.isfinite(seconds)
        order = np.argsort(seconds[mine], kind="stable")[:_FASTEST]
        return np.asarray(codes[mine][order])
