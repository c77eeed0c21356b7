"""Lists that do not guess alike."""

from __future__ import annotations

import numpy as np

from autoq.knowledge.listing import spread_list


def test_of_two_alike_the_second_waits_for_what_is_not():
    slowness = np.array([0.0, 0.01, 0.05, 0.5])
    leaves = np.array([[0] * 8, [0] * 8, [1] * 8, [2] * 8])
    assert spread_list(slowness, leaves, 3).tolist() == [0, 2, 1]


def test_without_anything_in_common_it_is_the_order_of_the_predictions():
    rng = np.random.default_rng(0)
    slowness = rng.random(50)
    leaves = np.arange(50)[:, None] + np.zeros((1, 6), int)
    assert spread_list(slowness, leaves, 50).tolist() == np.argsort(slowness).tolist()


def test_each_configuration_is_listed_once_and_no_more_than_there_are():
    rng = np.random.default_rng(1)
    found = spread_list(rng.random(20), rng.integers(0, 2, (20, 12)), 32)
    assert sorted(found.tolist()) == list(range(20))
