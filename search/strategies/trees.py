"""Boosted trees over trials, for the search that begins with what is known without its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xgboost

_TREES = {
    "max_depth": 4, "eta": 0.2, "min_child_weight": 1, "lambda": 1.0, "max_bin": 64,
    "objective": "reg:squarederror", "base_score": 0.0, "verbosity": 0,
}  # fmt: skip
_ROUNDS = 48
_SEEDS = 100_003


class Trees:
    """Grows ensembles, each of which has a seed of its own."""

    def __init__(self, seed: int, nthread: int) -> None:
        self._settings = {**_TREES, "nthread": nthread}
        self._seed = seed
        self._fits = 0

    def grown(
        self, features: np.ndarray, targets: np.ndarray, count: int, rng: np.random.Generator
    ) -> list[xgboost.Booster]:
        """One ensemble over all trials, several each over another resample of them.

        features: float32 [n, columns]; targets: what they learn, float64 [n].
        """
        import xgboost  # takes a second, in every process that knows spaces but never searches them

        found = []
        for _ in range(count):
            drawn = np.arange(len(targets))
            if count > 1:
                drawn = rng.integers(0, len(targets), len(targets))
            self._fits += 1
            settings = {**self._settings, "seed": self._seed * _SEEDS + self._fits}
            threads = self._settings["nthread"]
            data = xgboost.DMatrix(features[drawn], targets[drawn], nthread=threads)
            found.append(xgboost.train(settings, data, _ROUNDS))
        return found
