"""Codes that a search looks at: random ones, its fastest trials, and what climbs from the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.history import History

C = TypeVar("C")

# Of each member: random configurations that are always scored, and those that only one question
# has; of all together the fastest trials to climb from.
_POOL = 256
_NEWCOMERS = 16
_FASTEST = 16
# The best so many of all models together are mutated.
_CLIMBERS = 64


class Climber(Generic[C]):
    """Finds codes of low scores.

    Args:
        space: what is searched.
        rng: of all that is drawn.
        history: of the search.
        climbs: so often the best are mutated.
    """

    def __init__(
        self, space: SearchSpace[C], rng: np.random.Generator, history: History[C], climbs: int
    ) -> None:
        self.space, self.rng, self.history = space, rng, history
        self._climbs = climbs
        self._pools: dict[int, np.ndarray] = {}
        self._stocks: dict[int, np.ndarray] = {}

    def pool(self) -> np.ndarray:
        """The random codes of all members that are always looked at, int64 [n]."""
        return np.concatenate([self._pool(i) for i in range(self.space.member_count)])

    def climbed(
        self, members: Sequence[int], score: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Codes of members: random ones, the fastest trials, and what mutation finds from the best.

        score gives float64 [models, n] of codes [n], the less the better. All models climb
        together, each from its own best, and each scores what any of them finds. Returns codes
        [n] and their scores.
        """
        wanted = np.isin(np.arange(self.space.member_count), list(members))
        fastest = self._fastest(wanted)
        codes = np.union1d(np.concatenate([self._drawn(member) for member in members]), fastest)
        scores = score(codes)
        for _ in range(self._climbs):
            best = np.argsort(scores, axis=1, kind="stable")[:, : _CLIMBERS // len(scores)]
            starts = np.concatenate([codes[np.unique(best)], fastest])
            mutants = self.space.mutate_codes(starts, self.rng, stay=True)
            mutants = np.setdiff1d(mutants[wanted[self.space.members_of(mutants)]], codes)
            if len(mutants):
                codes = np.concatenate([codes, mutants])
                scores = np.concatenate([scores, score(mutants)], axis=1)
        return codes, scores

    def _pool(self, member: int) -> np.ndarray:
        if member not in self._pools:
            self._pools[member] = self.space.sample_member(member, self.rng, _POOL)
        return self._pools[member]

    def _drawn(self, member: int) -> np.ndarray:
        """The member's pool, and newcomers from the second question on."""
        if member not in self._stocks:
            self._stocks[member] = self._pool(member)[:0]
            return self._pool(member)
        stock = self._stocks[member]
        if len(stock) < _NEWCOMERS:
            # Many at once cost little more than a few.
            stock = self.space.sample_member(member, self.rng, _POOL)
        self._stocks[member] = stock[_NEWCOMERS:]
        return np.concatenate([self._pool(member), stock[:_NEWCOMERS]])

    def _fastest(self, wanted: np.ndarray) -> np.ndarray:
        """Codes of the fastest trials of the wanted members, fastest first: int64 [at most 16]."""
        codes, seconds = self.history.arrays()
        mine = wanted[self.space.members_of(codes)] & np.isfinite(seconds)
        order = np.argsort(seconds[mine], kind="stable")[:_FASTEST]
        return np.asarray(codes[mine][order])
