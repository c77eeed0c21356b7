"""A cost model that begins with the templates' own estimates and learns where these are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from autoq.search.search_space import SearchSpace
from autoq.search.strategies.cost_model import TREES

if TYPE_CHECKING:
    import xgboost

ESTIMATE = "seconds_estimate"
"""The derived feature that is a template's own guess of the time, right up to a factor."""

# Trials before trees are fitted to what the estimate misses, and trees of each model.
_LEAST_TRIALS = 8
_ROUNDS = 48
# Log of how much slower than the slowest success a failure counts.
_FAILURE = 0.7
# Deviations of log times by which each model doubts itself: some trust the estimate, some little.
_DOUBTS = (0.05, 0.1, 0.2, 0.3)


class EstimatedModel:
    """Predicts log seconds: a template's estimate, its factor, and what trees learnt of the rest.

    An ensemble, each of whose models is fitted to another resample of the trials and has doubts of
    its own. Where there is no estimate, trees learn all of it.

    Args:
        space: whose codes are scored.
        seed: of everything random.
        nthread: threads of each.
    """

    size = len(_DOUBTS)
    """Models of the ensemble."""

    def __init__(self, space: SearchSpace[Any], seed: int, nthread: int = 1) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._settings = {
            **TREES,
            "objective": "reg:squarederror",
            "base_score": 0.0,
            "seed": seed,
            "nthread": nthread,
            "verbosity": 0,
        }
        self._factors = np.zeros(space.member_count)
        self._trees: list[xgboost.Booster] = []

    def fit(self, codes: np.ndarray, seconds: np.ndarray) -> None:
        """Replace the model by one of these trials.

        Args:
            codes: legal codes, int64 [n].
            seconds: of each, infinite for a failure, float64 [n]; one or more are finite.
        """
        worked = np.isfinite(seconds)
        features = self._space.encode_codes(codes)
        logs = np.log(seconds, where=worked, out=np.zeros(len(codes)))
        logs[~worked] = logs[worked].max() + _FAILURE
        missed = logs - self._guess(features)
        member = self._space.members_of(codes)
        self._factors[:] = np.median(missed[worked])
        for i in np.unique(member[worked]).tolist():
            self._factors[i] = np.median(missed[worked & (member == i)])
        self._trees = []
        if len(codes) >= _LEAST_TRIALS:
            self._trees = self._grown(features, missed - self._factors[member])

    def _grown(self, features: np.ndarray, missed: np.ndarray) -> list[xgboost.Booster]:
        import xgboost  # takes a second, in every process that knows spaces but never searches them

        trees = []
        for _ in range(self.size):
            drawn = self._rng.integers(0, len(missed), len(missed))
            data = xgboost.DMatrix(
                features[drawn], missed[drawn], nthread=self._settings["nthread"]
            )
            trees.append(xgboost.train(self._settings, data, _ROUNDS))
        return trees

    def predict(self, codes: np.ndarray, model: int) -> np.ndarray:
        """Log seconds float64 [n] of legal codes [n] by one model, its doubts included."""
        if not len(codes):
            return np.empty(0)
        features = self._space.encode_codes(codes)
        found = self._guess(features) + self._factors[self._space.members_of(codes)]
        if self._trees:
            found += self._trees[model].inplace_predict(features)
        return found + _DOUBTS[model] * self._rng.standard_normal(len(codes))

    def guess(self, codes: np.ndarray) -> np.ndarray:
        """Log of the templates' own estimates of codes [n], float64 [n]; 0 where there is none."""
        return self._guess(self._space.encode_codes(codes))

    def _guess(self, features: np.ndarray) -> np.ndarray:
        names = self._space.feature_names
        if ESTIMATE not in names:
            return np.zeros(len(features))
        estimate = features[:, names.index(ESTIMATE)].astype(np.float64)
        known = estimate > 0
        return np.log(estimate, where=known, out=np.zeros(len(estimate)))
