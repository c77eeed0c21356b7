"""The Gaussian process of the default search: ranks, what it learns, and how sure it is."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.search.strategies.gaussian import Ranks, Sites, covariance, fitted, unmeasured


def sites(points, members=None, priors=None):
    points = np.asarray(points, np.float64)
    n = len(points)
    members = np.zeros(n, np.int64) if members is None else np.asarray(members)
    return Sites(points, members, np.zeros(n) if priors is None else np.asarray(priors))


def test_ranks_depend_on_order_alone_and_lie_between_those_of_the_reference():
    rng = np.random.default_rng(0)
    values = rng.random((50, 3))
    points = Ranks(values, None).of(values)
    np.testing.assert_allclose(points, Ranks(np.exp(9 * values), None).of(np.exp(9 * values)))
    assert points.var(axis=0).sum() == pytest.approx(1.0)
    low, high = np.sort(values[:, 0])[10:12]
    between = Ranks(values, None).of(np.array([[(low + high) / 2, 0.5, 0.5]]))[0, 0]
    assert np.sort(points[:, 0])[10] < between < np.sort(points[:, 0])[11]


def test_what_is_unknown_is_central_and_what_is_constant_says_nothing():
    reference = np.array([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]])
    points = Ranks(reference, None).of(np.array([[np.nan, 7.0], [2.0, 9.0]]))
    assert points.tolist() == [[0.0], [0.0]]


def test_an_estimate_counts_as_much_as_all_ranks_and_by_its_logarithm():
    rng = np.random.default_rng(1)
    reference = np.column_stack([rng.random(40), np.exp(rng.standard_normal(40))])
    points = Ranks(reference, 1).of(reference)
    assert points.shape == (40, 3)
    assert points[:, -1].std() == pytest.approx(1.0)
    logs = np.log(reference[:, 1])
    np.testing.assert_allclose(points[:, -1], (logs - logs.mean()) / logs.std(), atol=1e-9)


def test_a_process_finds_the_valley_of_a_function_from_a_dozen_values():
    grid = np.linspace(-1, 1, 201)[:, None]
    valley = (grid[:, 0] - 0.3) ** 2
    told = sites(grid[::18])
    (fit,) = fitted(told, valley[::18], [0.0])
    means = fit.beliefs(sites(grid)).bound(0)
    assert grid[np.argmin(means), 0] == pytest.approx(0.3, abs=0.03)
    np.testing.assert_allclose(means, valley, atol=0.05)


def test_doubt_is_least_where_it_was_measured_and_falls_where_one_is_taken():
    grid = np.linspace(-1, 1, 41)[:, None]
    (fit,) = fitted(sites(grid[:5]), np.arange(5.0), [0.0])
    beliefs = fit.beliefs(sites(grid))
    doubt = beliefs.bound(0) - beliefs.bound(1)
    assert doubt[2] < doubt[10] < doubt[30]
    beliefs.take(30)
    after = beliefs.bound(0) - beliefs.bound(1)
    assert after[30] < 0.5 * doubt[30] and after[29] < doubt[29]
    np.testing.assert_allclose(after[2], doubt[2], rtol=0.05)


def test_taking_a_site_leaves_what_measuring_it_would():
    rng = np.random.default_rng(2)
    points = rng.standard_normal((12, 2))
    targets = rng.standard_normal(12)
    (fit,) = fitted(sites(points[:6]), targets[:6], [0.0])
    beliefs = fit.beliefs(sites(points))
    beliefs.take(7)
    given = sites(points[[0, 1, 2, 3, 4, 5, 7]])
    kernel = covariance(given, given, fit.length) + fit.noise * np.eye(7)
    across = covariance(given, sites(points), fit.length)
    own = covariance(sites(points[:1]), sites(points[:1]), fit.length)[0, 0]
    left = own - (across * np.linalg.solve(kernel, across)).sum(axis=0)
    found = (beliefs.bound(0) - beliefs.bound(1)) ** 2 / fit.variance
    np.testing.assert_allclose(found, left, atol=1e-9)


def test_the_likeliest_weight_is_that_of_a_prior_that_is_right_or_wrong():
    rng = np.random.default_rng(3)
    points = rng.standard_normal((24, 3))
    prior = rng.standard_normal(24)
    weights = (0.0, 0.25, 0.5, 0.75, 1.0)
    for truth, expected in ((prior, 1.0), (0.5 * prior, 0.5), (points[:, 0], 0.0)):
        noise = 0.01 * rng.standard_normal(24)
        fits = fitted(sites(points, priors=prior), truth + noise, weights)
        assert max(fits, key=lambda fit: fit.likelihood).weight == expected


def test_what_one_template_takes_says_less_of_another():
    points = np.zeros((2, 1))
    same = covariance(sites(points[:1]), sites(points[1:]), 1.0)[0, 0]
    other = covariance(sites(points[:1]), sites(points[1:], members=[1]), 1.0)[0, 0]
    assert 0 < other < same / 2


def test_before_any_trial_places_go_to_what_is_believed_to_be_fast_and_unlike():
    points = np.array([[0.0], [0.001], [5.0]])
    beliefs = unmeasured(sites(points, priors=[0.0, 0.01, 0.05]), 0.2, 1.0)
    assert int(np.argmin(beliefs.bound(1.0))) == 0
    beliefs.take(0)
    bounds = beliefs.bound(1.0)
    assert bounds[2] < bounds[1]
