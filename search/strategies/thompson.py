"""Thompson sampling over an ensemble: every configuration of a batch trusts another model.

Ours, beyond the paper. One model's favourites resemble each other, and where it is wrong they are
wrong together; models fitted on resamples of the trials disagree exactly where too little has
been measured, so a batch drawn from all of them is distinctive by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.cost_model import CostModel
from autoq.search.strategies.history import History
from autoq.search.trial import Trial

C = TypeVar("C")

# Trials before the models are trusted; the paper's first batch.
_LEAST_TRIALS = 32
# Climbing a space that is too large to score whole: the best so many, so many times mutated.
_CLIMBERS = 128
_CLIMBS = 16


class Thompson(Generic[C]):
    """Takes each configuration of a batch from the next model of a bootstrap ensemble.

    Args:
        space: what is searched.
        seed: of everything random.
        models: size of the ensemble.
        pool: configurations scored at each ask: all of a space with fewer legal ones; of a
            larger one a fixed sample, from whose best the models climb by mutation.
        nthread: threads of each model.
    """

    def __init__(
        self,
        space: SearchSpace[C],
        seed: int,
        models: int = 8,
        pool: int = 8192,
        nthread: int = 1,
    ) -> None:
        self._history = History(space)
        self._rng = np.random.default_rng(seed)
        self._models = [
            CostModel(seed * models + i, "regression", nthread=nthread) for i in range(models)
        ]
        self._pool_size = pool
        self._pool = np.empty(0, dtype=np.int64)

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations; random until trials can be told apart."""
        codes, seconds = self._history.arrays()
        chosen: list[int] = []
        if len(codes) >= _LEAST_TRIALS and self._history.successes and n > 0:
            self._refit(codes, seconds)
            chosen = self._draw(n)
        return self._history.hand_out(self._history.fill(chosen, n, self._rng))

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Take in trials for the next refit."""
        self._history.add(trials)

    def _refit(self, codes: np.ndarray, seconds: np.ndarray) -> None:
        features = self._history.space.encode_codes(codes)
        for model in self._models:
            drawn = self._rng.integers(0, len(codes), len(codes))
            model.fit(features[drawn], seconds[drawn])

    def _draw(self, n: int) -> list[int]:
        """Up to n unseen codes, from each fitted model in turn the best that is left."""
        space = self._history.space
        if not len(self._pool):
            self._pool = space.sample_codes(self._rng, self._pool_size)
        features = space.encode_codes(self._pool)
        rankings = [iter(self._ranking(model, features)) for model in self._models if model.fitted]
        self._rng.shuffle(rankings)  # a batch smaller than the ensemble hears all of it in time
        chosen: dict[int, None] = {}
        while rankings and len(chosen) < n:
            for ranking in list(rankings):
                code = next((c for c in ranking if c not in chosen), None)
                if code is None:
                    rankings.remove(ranking)
                elif len(chosen) < n:
                    chosen[code] = None
        return list(chosen)

    def _ranking(self, model: CostModel, features: np.ndarray) -> list[int]:
        """Unseen codes by one model's score, best first; features are the pool's."""
        space = self._history.space
        codes = self._pool
        scores = model.predict(features)
        for _ in range(_CLIMBS if len(self._pool) == self._pool_size else 0):
            best = np.argsort(-scores, kind="stable")[:_CLIMBERS]
            mutants = np.setdiff1d(space.mutate_codes(codes[best], self._rng), codes)
            codes = np.concatenate([codes, mutants])
            scores = np.concatenate([scores, model.predict(space.encode_codes(mutants))])
        ranked = codes[np.argsort(-scores, kind="stable")].tolist()
        return [code for code in ranked if code not in self._history.seen]
