from __future__ import annotations

import numpy as np
import pytest

from autoq.search.strategies.cost_model import CostModel, relative_speed


def concordance(first: np.ndarray, second: np.ndarray) -> float:
    """Share of pairs that two arrays order alike; 0.5 is chance."""
    above = np.sign(first[:, None] - first[None, :])
    return float((above == np.sign(second[:, None] - second[None, :])).mean())


def synthetic(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    features = np.random.default_rng(seed).random((n, 6)).astype(np.float32)
    seconds = 1 + features[:, 0] * features[:, 1] + abs(features[:, 2] - 0.4)
    return features, seconds.astype(np.float64)


@pytest.mark.parametrize("objective", ["rank", "regression"])
def test_ranks_unseen_configurations_better_than_chance(objective):
    model = CostModel(0, objective)
    model.fit(*synthetic(200, 0))
    features, seconds = synthetic(200, 1)
    assert concordance(model.predict(features), -seconds) > 0.8


def test_failures_rank_worst():
    features, seconds = synthetic(200, 0)
    failing = features[:, 3] > 0.7
    model = CostModel(0)
    model.fit(features, np.where(failing, np.inf, seconds))
    scores = model.predict(features)
    assert np.quantile(scores[failing], 0.95) < np.quantile(scores[~failing], 0.05)


def test_missing_features_are_accepted():
    features, seconds = synthetic(100, 0)
    features[::2, 0] = np.nan
    model = CostModel(0)
    model.fit(features, seconds)
    assert np.isfinite(model.predict(features)).all()


@pytest.mark.parametrize("seconds", [[], [1.0], [2.0, 2.0, 2.0], [np.inf, np.inf]])
def test_nothing_to_rank_scores_zero(seconds):
    model = CostModel(0)
    model.fit(np.zeros((len(seconds), 2), np.float32), np.array(seconds))
    assert not model.fitted
    assert model.predict(np.ones((3, 2), np.float32)).tolist() == [0, 0, 0]


def test_two_trials_are_enough_to_fit():
    model = CostModel(0)
    model.fit(np.array([[0.0], [1.0]], np.float32), np.array([1.0, np.inf]))
    assert model.fitted


def test_refit_forgets():
    features, seconds = synthetic(50, 0)
    model = CostModel(0)
    model.fit(features, seconds)
    model.fit(features, np.ones(50))
    assert not model.fitted


def test_same_seed_gives_same_scores():
    scores = []
    for _ in range(2):
        model = CostModel(5)
        model.fit(*synthetic(100, 0))
        scores.append(model.predict(synthetic(50, 1)[0]))
    assert (scores[0] == scores[1]).all()


def test_relative_speed_is_one_for_the_fastest_and_zero_for_failures():
    assert relative_speed(np.array([2.0, np.inf, 1.0])).tolist() == [0.5, 0.0, 1.0]
    assert relative_speed(np.array([np.inf])).tolist() == [0.0]
