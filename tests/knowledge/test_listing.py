from __future__ import annotations

import numpy as np

from autoq.knowledge.listing import listed


def test_every_eighth_place_goes_to_the_estimates_of_the_template_that_leads():
    slowness = np.arange(24.0)
    templates = ["a", "b"] * 12
    estimates = np.where(slowness % 2 == 0, 40 - slowness, 1e-9)
    found = listed(slowness, estimates, templates, 17)
    # Of a, whose rows are even, the last ones have the least estimates.
    assert found.tolist() == [*range(7), 22, *range(7, 14), 20, 14]


def test_of_equal_estimates_the_model_says_which_is_first():
    slowness = np.random.default_rng(0).permutation(20.0 * np.arange(1, 21))
    found = listed(slowness, np.full(20, 1e-6), ["a"] * 20, 20)
    assert found.tolist() == np.argsort(slowness).tolist()


def test_a_list_is_of_the_model_alone_where_nothing_is_estimated():
    slowness = np.random.default_rng(0).random(20)
    found = listed(slowness, np.full(20, np.nan), ["a", "b"] * 10, 32)
    assert found.tolist() == np.argsort(slowness).tolist()


def test_every_row_comes_once_where_all_are_asked_for():
    rng = np.random.default_rng(1)
    estimates = np.where(rng.random(30) < 0.5, np.nan, rng.random(30))
    found = listed(rng.random(30), estimates, ["a", "b", "c"] * 10, 100)
    assert sorted(found.tolist()) == [*range(30)]
