"""The cost model: boosted trees that rank encoded configurations by predicted speed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xgboost

# Tree settings of AutoTVM's XGBTuner, which the paper builds on.
TREES = {"max_depth": 3, "gamma": 1e-4, "min_child_weight": 1, "eta": 0.3, "lambda": 1.0}
# XGBoost pairs only its top 32 predictions with the rest unless told otherwise; below them nothing
# is learnt, failures included (rank correlation 0.71 against 0.82 at 128 trials, synthetic space).
_MOST_PAIRED = 512
_OBJECTIVES = {"rank": "rank:pairwise", "regression": "reg:squarederror"}


class CostModel:
    """XGBoost on (features, seconds); a higher score is a faster configuration.

    Args:
        seed: of the trees' sampling; the same seed and data give the same scores.
        objective: "rank" (pairs in the right order) or "regression" (relative speed).
        rounds: boosted trees.
        nthread: threads of fitting and prediction.
        trees: XGBoost tree settings that replace AutoTVM's.
    """

    def __init__(
        self,
        seed: int,
        objective: str = "rank",
        rounds: int = 64,
        nthread: int = 1,
        trees: dict[str, Any] | None = None,
    ) -> None:
        self._settings = {
            **TREES,
            **(trees or {}),
            "objective": _OBJECTIVES[objective],
            "seed": seed,
            "nthread": nthread,
            "verbosity": 0,
        }
        self._rounds = rounds
        self._booster: xgboost.Booster | None = None

    @property
    def fitted(self) -> bool:
        """Whether the last fit had anything to rank."""
        return self._booster is not None

    def fit(self, features: np.ndarray, seconds: np.ndarray) -> None:
        """Replace the model by one of these measurements.

        Args:
            features: float [n, d]; NaN is missing.
            seconds: float [n]; infinite for a failure, which ranks below every success. When
                all are equal, or fewer than two are given, there is nothing to rank: the model
                is unfitted and scores everything 0.
        """
        speed = relative_speed(seconds)
        if len(speed) < 2 or (speed == speed[0]).all():
            self._booster = None
            return
        import xgboost  # takes a second, in every process that knows spaces but never searches them

        settings = self._settings
        data = xgboost.DMatrix(features, speed, nthread=settings["nthread"])
        if settings["objective"].startswith("rank:"):
            data.set_group([len(speed)])
            paired = min(len(speed), _MOST_PAIRED)
            settings = {"lambdarank_num_pair_per_sample": paired, **settings}
        self._booster = xgboost.train(settings, data, self._rounds)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Scores float32 [n] of features [n, d]; comparable within one fit only."""
        if self._booster is None or not len(features):
            return np.zeros(len(features), dtype=np.float32)
        return np.asarray(self._booster.inplace_predict(features), dtype=np.float32)


def relative_speed(seconds: np.ndarray) -> np.ndarray:
    """Speed as a share of the fastest, float64 [n]: 1 for the fastest, 0 for failures (inf)."""
    if not len(seconds) or not np.isfinite(seconds).any():
        return np.zeros(len(seconds))
    return np.where(np.isfinite(seconds), seconds.min() / seconds, 0.0)
