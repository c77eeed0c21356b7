"""Helion's search: a random forest that tells the fastest tenth from the rest, around the best.

Source: LFBOPatternSearch of pytorch/helion, `autotuner/surrogate_pattern_search.py`; Song et al.,
"A General Recipe for Likelihood-free Bayesian Optimization". Each of five paths goes on from its
best configuration: of 300 neighbours that differ in up to two knobs or three a tenth is measured,
chosen one by one by the probability of being fast less the mean share of leaves in common with what
was chosen before. Failures count as slow. Two things differ: the forest is XGBoost's, and a search
whose paths have all ended begins new ones at its fastest trials instead of stopping.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.history import History
from autoq.search.trial import Trial

if TYPE_CHECKING:
    import xgboost

C = TypeVar("C")

_FOREST = {
    "objective": "binary:logistic",
    "num_parallel_tree": 100,
    "learning_rate": 1.0,
    "max_depth": 12,
    "min_child_weight": 0.0,
    "lambda": 1e-3,
    "subsample": 0.63,
    "colsample_bynode": 0.3,
    "nthread": 1,
    "verbosity": 0,
}
# A path ends after so many generations without a gain of so much.
_PATIENCE, _GAIN = 1, 0.001


class Classifier(Generic[C]):
    """Pattern search along several paths, thinned by a classifier of the fastest trials.

    Args:
        space: what is searched.
        seed: of everything random.
        initial: random configurations before the first path.
        paths: that start at as many fastest configurations.
        neighbours: drawn around the best of each path in a generation.
        share: of the neighbours that is measured.
        quantile: of the times that counts as fast.
        radius: knobs that a neighbour differs in beyond one.
    """

    batch = 32

    def __init__(
        self,
        space: SearchSpace[C],
        seed: int,
        initial: int = 100,
        paths: int = 5,
        neighbours: int = 300,
        share: float = 0.1,
        quantile: float = 0.1,
        radius: int = 2,
    ) -> None:
        self._history = History(space)
        self._rng = np.random.default_rng(seed)
        self._seed = seed
        self._initial = initial
        self._most_paths = paths
        self._neighbours = neighbours
        self._share = share
        self._quantile = quantile
        self._radius = radius
        self._forest: xgboost.Booster | None = None
        self._waiting: list[int] = []
        self._asked: list[tuple[int, list[int], int]] = []

    def ask(self, n: int) -> list[C]:
        """At most n unseen legal configurations of a generation; random ones to begin with."""
        if not self._waiting and len(self._history.seen) >= self._initial:
            self._next_generation()
        wanted: list[int] = []
        while self._waiting and len(wanted) < n:
            code = self._waiting.pop(0)
            if code not in self._history.seen and code not in wanted:
                wanted.append(code)
        random = len(self._history.seen) < self._initial or not wanted
        if random:
            left = self._initial - len(self._history.seen)
            return self._history.hand_out(
                self._history.fill(wanted, min(n, left) if left > 0 else n, self._rng)
            )
        return self._history.hand_out(np.array(wanted, dtype=np.int64))

    def tell(self, trials: Sequence[Trial[C]]) -> None:
        """Take in trials; a generation that is told moves its paths on."""
        self._history.add(trials)

    def _next_generation(self) -> None:
        self._fit()
        if self._forest is None:
            return
        for at, patience in self._moved():
            near = self._near(at)
            chosen = self._selected(near, max(1, int(len(near) * self._share)))
            if chosen:
                self._asked.append((at, chosen, patience))
                self._waiting += chosen

    def _moved(self) -> list[tuple[int, int]]:
        """Where each path goes on, and how often it may yet fail to gain."""
        seconds = self._history.seconds
        paths = []
        for at, chosen, patience in self._asked:
            best = min([at, *chosen], key=lambda code: seconds.get(code, np.inf))
            gained = seconds.get(best, np.inf) < seconds.get(at, np.inf) * (1 - _GAIN)
            if gained or patience:
                paths.append((best, patience if gained else patience - 1))
        self._asked = []
        if not paths:
            codes, times = self._history.arrays()
            order = np.argsort(times, kind="stable")[: self._most_paths]
            fast = codes[order[np.isfinite(times[order])]].tolist()
            paths = [(code, _PATIENCE) for code in fast]
        return paths

    def _near(self, code: int) -> np.ndarray:
        """Unseen codes that differ from a code in one knob and up to `radius` others."""
        space, rng = self._history.space, self._rng
        codes = np.full(self._neighbours, code, dtype=np.int64)
        further = rng.integers(0, self._radius + 1, len(codes))
        for step in range(self._radius + 1):
            moving = further >= step
            codes[moving] = space.mutate_codes(codes[moving], rng)
        seen = np.fromiter(self._history.seen, np.int64, len(self._history.seen))
        return np.setdiff1d(codes, seen)

    def _fit(self) -> None:
        """The forest over all trials; none where there is nothing to tell apart."""
        codes, seconds = self._history.arrays()
        worked = np.isfinite(seconds)
        self._forest = None
        if not worked.any():
            return
        limit = np.quantile(seconds[worked], self._quantile)
        fast = seconds <= limit
        if fast.all():
            return
        import xgboost  # takes a second, in every process that knows spaces but never searches them

        ahead = np.maximum(1e-5 * limit, limit - np.where(fast, seconds, limit))
        weights = np.where(fast, ahead / ahead[fast].mean(), 1.0)
        data = xgboost.DMatrix(
            self._history.space.encode_codes(codes), fast.astype(float), weight=weights, nthread=1
        )
        self._forest = xgboost.train({**_FOREST, "seed": self._seed}, data, 1)

    def _selected(self, codes: np.ndarray, n: int) -> list[int]:
        """n codes, each the best of probability less mean similarity to those before it."""
        if self._forest is None or not len(codes):
            return []
        import xgboost

        data = xgboost.DMatrix(self._history.space.encode_codes(codes), nthread=1)
        probability = self._forest.predict(data)
        leaves = self._forest.predict(data, pred_leaf=True).reshape(len(codes), -1)
        similar = np.zeros(len(codes))
        score = probability.astype(np.float64)
        chosen: list[int] = []
        for rank in range(min(n, len(codes))):
            pick = int(np.argmax(score))
            chosen.append(pick)
            similar += (leaves == leaves[pick]).mean(axis=1)
            score = probability - similar / (rank + 1)
            score[chosen] = -np.inf
        return [int(codes[pick]) for pick in chosen]
