"""Random search: the control that every other strategy must beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.history import History
from autoq.search.trial import Trial

C = TypeVar("C")


class RandomSearch(Generic[C]):
    """Uniform draws without replacement from the legal configurations."""

    def __init__(self, space: SearchSpace[C], seed: int) -> None:
        self._history = History(space)
        self._rng = np.random.default_rng(seed)

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations; [] when all have been seen."""
        return self._history.hand_out(self._history.fill([], n, self._rng))

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Remember what has been measured, so that it is not asked for."""
        self._history.add(trials)
