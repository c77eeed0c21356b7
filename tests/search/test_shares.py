from __future__ import annotations

import numpy as np
import pytest

from autoq.search.strategies.shares import share_out

INF = np.inf


def shares(n, best, tried=None):
    tried = np.ones(len(best), dtype=int) if tried is None else np.array(tried)
    return share_out(n, tried, np.array(best)).tolist()


@pytest.mark.parametrize("members", [1, 2, 5])
def test_equal_members_get_equal_shares(members):
    assert shares(4 * members, [1e-5] * members) == [4] * members
    assert shares(4 * members, [INF] * members) == [4] * members


def test_one_that_lags_far_behind_gets_little_and_less():
    first = shares(32, [13e-6, 21.6e-6])
    assert first[1] <= 4
    later = shares(32, [13e-6, 21.6e-6], tried=[100, 8])
    assert later[1] <= 2


def test_nobody_is_left_out_for_ever():
    assert shares(400, [1e-6, 1e-3])[1] >= 8
    assert shares(100, [1e-6, INF], tried=[1, 0])[1] >= 4


def test_a_lead_that_noise_may_explain_starves_nobody():
    assert min(shares(32, [3.43e-6, 2.95e-6, 3.2e-6, 3.11e-6])) >= 4


def test_a_small_lag_is_caught_up_with_trials():
    assert shares(32, [1.0, 1.2])[1] >= 8


def test_the_shares_are_what_was_wanted():
    assert sum(shares(17, [1.0, 3.0, INF], tried=[4, 0, 9])) == 17
    assert shares(0, [1.0, 2.0]) == [0, 0]
