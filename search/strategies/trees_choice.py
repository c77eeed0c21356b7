"""What boosted trees of the trials would measure next: in the place of a process, to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from autoq.search.strategies.climbing import Climber
from autoq.search.strategies.prior_mean import PriorMean

if TYPE_CHECKING:
    import xgboost

C = TypeVar("C")

_TREES = {
    "max_depth": 4, "eta": 0.2, "min_child_weight": 1, "lambda": 1.0, "max_bin": 64,
    "objective": "reg:squarederror", "base_score": 0.0, "verbosity": 0, "nthread": 1,
}  # fmt: skip
_ROUNDS = 48
_SEEDS = 100_003


class TreesChoice(Generic[C]):
    """Chooses codes of a search.

    Args:
        climber: of the search.
        prior_mean: what is believed before anything is measured, which trees correct.
        models: ensembles that choose in turn, one over all trials, several each over another
            resample of them.
        seed: of the ensembles, each of which has one of its own.
    """

    def __init__(
        self, climber: Climber[C], prior_mean: PriorMean[C], models: int, seed: int
    ) -> None:
        self._climber, self._prior_mean = climber, prior_mean
        self._models, self._seed = models, seed
        self._fits = 0

    def chosen(self, told: np.ndarray, targets: np.ndarray, n: int) -> list[int]:
        """At most n unseen codes, from each ensemble in turn the best that is left.

        told: codes of the trials [m]; targets: their log seconds [m].
        """
        space, believed = self._climber.space, self._prior_mean.of
        rest = targets - believed(told)
        count = min(self._models, n)
        models = self._grown(space.encode_codes(told), rest - np.median(rest), count)

        def scored(codes: np.ndarray) -> np.ndarray:
            features, before = space.encode_codes(codes), believed(codes)
            found = np.array([model.inplace_predict(features) for model in models], np.float64)
            return found + before

        codes, scores = self._climber.climbed(range(space.member_count), scored)
        orders = np.argsort(scores, axis=1, kind="stable")
        rankings = [self._climber.history.unseen(codes[order]) for order in orders]
        in_turn = [code for place in zip(*rankings, strict=True) for code in place]
        return list(dict.fromkeys(in_turn))[:n]

    def _grown(
        self, features: np.ndarray, targets: np.ndarray, count: int
    ) -> list[xgboost.Booster]:
        """Ensembles over features float32 [m, columns] of what trials differ from beliefs by."""
        import xgboost  # takes a second, in every process that knows spaces but never searches them

        found = []
        for _ in range(count):
            drawn = np.arange(len(targets))
            if count > 1:
                drawn = self._climber.rng.integers(0, len(targets), len(targets))
            self._fits += 1
            settings = {**_TREES, "seed": self._seed * _SEEDS + self._fits}
            data = xgboost.DMatrix(features[drawn], targets[drawn], nthread=1)
            found.append(xgboost.train(settings, data, _ROUNDS))
        return found
