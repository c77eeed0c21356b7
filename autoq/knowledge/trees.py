"""Boosted trees of what records teach: members of a model, in XGBoost's own JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from autoq.knowledge.features import OF_THE_WORKLOAD

if TYPE_CHECKING:
    import xgboost

MEMBERS = 4
"""Boosters of a model, whose mean counts: of one alone, a space's order depends on the seed."""

_ROUNDS = 100
_SETTINGS = {
    "max_depth": 6, "eta": 0.12, "min_child_weight": 4,
    "subsample": 0.8, "colsample_bytree": 0.5, "lambda": 1.0, "max_bin": 64, "base_score": 0.0,
    "verbosity": 0,
}  # fmt: skip


def grown(
    names: Sequence[str],
    features: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    places: np.ndarray,
    seed: int,
    nthread: int,
) -> xgboost.Booster:
    """One booster with the trees of all members, which predicts the mean of what they predict.

    features: float32 [n, names]; targets, weights: [n]; places: of the workload of each trial,
    int64 [n]. Every other member sees nothing of the workload but what the features of its
    configurations say, so that what members disagree in is what shapes decide.
    """
    import xgboost

    blind = features.copy()
    blind[:, [name.startswith(OF_THE_WORKLOAD) for name in names]] = np.nan
    both = [
        xgboost.DMatrix(seen, targets, weight=weights, feature_names=list(names), nthread=nthread)
        for seen in (features, blind)
    ]
    boosters = [
        xgboost.train(
            {**_SETTINGS, "seed": MEMBERS * seed + i, "nthread": nthread}, both[i % 2], _ROUNDS,
            obj=_within(places, weights),
        )
        for i in range(MEMBERS)
    ]  # fmt: skip
    return _mean(boosters)


def predictions(booster: xgboost.Booster, features: np.ndarray) -> np.ndarray:
    """What each member of a grown booster says of features [n, names]: float64 [members, n]."""
    starts = range(0, booster.num_boosted_rounds(), _ROUNDS)
    found = [
        booster.inplace_predict(features, iteration_range=(at, at + _ROUNDS),
                                validate_features=False)
        for at in starts
    ]  # fmt: skip
    return np.array(found, np.float64) * len(starts)


def needed(data: bytes) -> bytes:
    """XGBoost's JSON with zeros for what predictions do not ask for, a third of its bytes."""
    model = json.loads(data)
    for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
        for name in ("base_weights", "loss_changes", "sum_hessian"):
            tree[name] = [0.0] * len(tree[name])
    return json.dumps(model, separators=(",", ":")).encode()


def _within(
    places: np.ndarray, weights: np.ndarray
) -> Callable[[np.ndarray, xgboost.DMatrix], tuple[np.ndarray, np.ndarray]]:
    """Squared errors of what trials of one workload differ by: gradients and second derivatives.

    The best of a dozen recorded configurations is not the best of a workload, by a margin that
    differs from workload to workload and that no tree has to explain.
    """
    totals = np.bincount(places, weights)

    def objective(found: np.ndarray, data: xgboost.DMatrix) -> tuple[np.ndarray, np.ndarray]:
        errors = found - data.get_label()
        errors -= (np.bincount(places, weights * errors) / totals)[places]
        return weights * errors, weights

    return objective


def _mean(boosters: Sequence[xgboost.Booster]) -> xgboost.Booster:
    import xgboost

    models = [json.loads(bytes(one.save_raw("json"))) for one in boosters]
    trees = []
    for model in models:
        for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
            tree["id"] = len(trees)
            # A leaf's value stands where other nodes have what they split at.
            tree["split_conditions"] = [
                value / len(models) if left < 0 else value
                for value, left in zip(tree["split_conditions"], tree["left_children"], strict=True)
            ]
            trees.append(tree)
    joined = models[0]["learner"]["gradient_booster"]["model"]
    joined["trees"], joined["tree_info"] = trees, [0] * len(trees)
    joined["iteration_indptr"] = list(range(len(trees) + 1))
    joined["gbtree_model_param"]["num_trees"] = str(len(trees))
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(models[0]).encode()))
    return booster
