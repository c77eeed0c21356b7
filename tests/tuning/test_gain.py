"""What a task may still gain, by hand."""

from math import inf

import pytest

from autoq.tuning.gain import gain_of_doubling


def test_without_a_success_the_gain_is_infinite():
    assert gain_of_doubling([]) == inf
    assert gain_of_doubling([inf, inf]) == inf


def test_few_trials_promise_what_is_usual():
    assert gain_of_doubling([100.0]) == pytest.approx(4.0, rel=0.05)
    assert gain_of_doubling([inf, 100.0]) == pytest.approx(4.0)


def test_many_trials_promise_what_their_last_doubling_saved():
    curve = [100.0] * 500 + [90.0] * 500
    assert gain_of_doubling(curve) == pytest.approx(10.0, rel=0.05)
    assert gain_of_doubling([90.0] * 1000) == pytest.approx(24 / 1024 * 3.6)


def test_a_gain_older_than_half_of_the_trials_promises_nothing():
    early = [100.0] * 100 + [50.0] * 900
    assert gain_of_doubling(early) == gain_of_doubling([50.0] * 1000)
