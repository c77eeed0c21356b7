"""A plain genetic search on measured times: the control without a cost model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.history import History
from autoq.search.trial import Trial

C = TypeVar("C")

# Draws of a child for each one wanted; related parents often breed known children.
_BREEDINGS = 8


class Evolution(Generic[C]):
    """Breeds the fastest measured configurations.

    Args:
        space: what is searched.
        seed: of everything random.
        elite: the parents are so many fastest measured configurations.
        mutation: probability that a child is mutated, on top of being crossed.
        random_share: probability that a child is a random configuration instead.
    """

    def __init__(
        self,
        space: SearchSpace[C],
        seed: int,
        elite: int = 32,
        mutation: float = 0.7,
        random_share: float = 0.05,
    ) -> None:
        self._history = History(space)
        self._rng = np.random.default_rng(seed)
        self._elite = elite
        self._mutation = mutation
        self._random_share = random_share

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations; random until anything was measured."""
        parents = self._parents()
        children: dict[int, None] = {}
        for _ in range(_BREEDINGS * n if len(parents) else 0):
            if len(children) == n or self._rng.random() < self._random_share / _BREEDINGS:
                break
            child = self._history.space.code(self._breed(parents))
            if child not in self._history.seen:
                children[child] = None
        return self._history.hand_out(self._history.fill(list(children), n, self._rng))

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Take in trials; the fastest become parents."""
        self._history.add(trials)

    def _parents(self) -> np.ndarray:
        """Codes of the fastest measured, fastest first; failures never breed."""
        codes, seconds = self._history.arrays()
        order = np.argsort(seconds, kind="stable")[: self._elite]
        return np.asarray(codes[order[np.isfinite(seconds[order])]])

    def _breed(self, parents: np.ndarray) -> C:
        space, rng = self._history.space, self._rng
        # The smaller of two uniform positions favours the faster parents (a tournament of two).
        mother, father = rng.integers(0, len(parents), (2, 2)).min(axis=1).tolist()
        child = space.cross(
            space.config(int(parents[mother])), space.config(int(parents[father])), rng
        )
        if rng.random() < self._mutation or mother == father:
            child = space.mutate(child, rng)
        return child
