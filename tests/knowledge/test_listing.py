from __future__ import annotations

import numpy as np

from autoq.knowledge.listing import listed


def test_every_fourth_place_goes_to_the_estimates_of_the_template_that_leads():
    slowness = np.arange(12.0)
    templates = ["a", "b"] * 6
    estimates = np.where(slowness % 2 == 0, 20 - slowness, 1e-9)
    found = listed(slowness, estimates, templates, 9)
    # Of a, whose rows are even, the last ones have the least estimates.
    assert found.tolist() == [0, 1, 2, 10, 3, 4, 5, 8, 6]


def test_of_equal_estimates_the_model_says_which_is_first():
    slowness = np.array([0.0, 5.0, 1.0, 4.0, 2.0, 3.0])
    found = listed(slowness, np.full(6, 1e-6), ["a"] * 6, 6)
    assert found.tolist() == [0, 2, 4, 5, 3, 1]


def test_a_list_is_of_the_model_alone_where_nothing_is_estimated():
    slowness = np.random.default_rng(0).random(20)
    found = listed(slowness, np.full(20, np.nan), ["a", "b"] * 10, 32)
    assert found.tolist() == np.argsort(slowness).tolist()


def test_every_row_comes_once_where_all_are_asked_for():
    rng = np.random.default_rng(1)
    estimates = np.where(rng.random(30) < 0.5, np.nan, rng.random(30))
    found = listed(rng.random(30), estimates, ["a", "b", "c"] * 10, 100)
    assert sorted(found.tolist()) == [*range(30)]
