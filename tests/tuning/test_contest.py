"""Which candidates meet the default, and what counts after they did."""

import pytest

from autoq.records import Device, Record
from autoq.templates.operators.gemm import Gemm
from autoq.tuning.contest import Contest

DEFAULT = 7


def record(us, confirmed=False):
    return Record(
        Gemm(8, 8, 8), "replay", 1, {}, Device("Replay", "generic"), "2026-11-22T12:00:00Z",
        seconds=us, failure="correctness" if us is None else None,
        confirmed=confirmed,
    )  # fmt: skip


@pytest.fixture
def contest():
    """A default of 10 us and claims of 9, 8, 30 and 20 us."""
    contest = Contest(lambda: DEFAULT)
    for code, us in ((DEFAULT, 10.0), (1, 9.0), (2, 8.0), (3, 30.0), (4, 20.0)):
        contest.claim(code, record(us))
    return contest


def settle(contest, **us):
    contest.settle([(int(name[1:]), record(value, confirmed=True)) for name, value in us.items()])


def test_the_best_claim_meets_the_default(contest):
    assert contest.entrants() == [DEFAULT, 2]
    assert contest.best.seconds == 8 and contest.default_seconds == 10


def test_claims_far_behind_the_default_do_not_meet_it():
    contest = Contest(lambda: DEFAULT)
    contest.claim(DEFAULT, record(10.0))
    contest.claim(1, record(11.5))
    assert contest.entrants() == [] and contest.default_is_best
    contest.claim(2, record(10.5))
    assert contest.entrants() == [DEFAULT, 2]


def test_more_claims_send_more_challengers(contest):
    for code in range(10, 40):
        contest.claim(code, record(7.0 + code / 100))
    assert contest.entrants() == [DEFAULT, 10, 11, 12]


def test_a_default_that_wins_stays_whatever_was_claimed(contest):
    settle(contest, c7=12.0, c2=13.0)
    assert contest.default_is_best and contest.best.seconds == 12
    assert contest.entrants() == []


def test_a_winner_meets_later_claims_beside_the_default(contest):
    settle(contest, c7=12.0, c2=11.0)
    assert not contest.default_is_best and contest.best.seconds == 11
    contest.claim(5, record(6.0))
    assert contest.best.seconds == 11 and contest.fastest.seconds == 6
    assert contest.entrants() == [DEFAULT, 2, 5]
    settle(contest, c7=12.0, c2=11.0, c5=14.0)
    assert contest.best.seconds == 11 and contest.entrants() == []


def test_a_candidate_that_fails_in_a_comparison_is_out(contest):
    settle(contest, c7=10.0, c2=None)
    assert contest.default_is_best and contest.fastest.seconds == 9


def test_without_a_working_default_the_best_claims_meet_each_other():
    contest = Contest(lambda: DEFAULT)
    contest.claim(DEFAULT, record(None))
    contest.claim(1, record(9.0))
    assert contest.entrants() == [] and contest.default_seconds is None
    for code in range(10, 20):
        contest.claim(code, record(float(code)))
    assert contest.entrants() == [1, 10]


def test_what_stood_is_confirmed_alone_when_a_comparison_could_not_be_made(contest):
    """A claim that brought the worker down must not be what is chosen."""
    contest.fail()
    assert contest.entrants() == [DEFAULT]
    settle(contest, c7=10.0)
    assert contest.default_is_best and contest.entrants() == []


def test_comparisons_that_fail_again_and_again_end(contest):
    contest.fail()
    contest.fail()
    assert contest.entrants() == [] and not contest.confirmed
    contest.claim(5, record(6.0))
    assert contest.entrants() == [DEFAULT, 5]


def test_claims_that_come_during_a_comparison_await_the_next_one(contest):
    assert contest.begin() == [DEFAULT, 2]
    contest.claim(5, record(7.0))
    settle(contest, c7=10.0, c2=8.0)
    assert contest.best.seconds == 8
    assert contest.begin() == [DEFAULT, 2, 5]
    contest.claim(6, record(7.5))
    contest.fail()
    assert contest.begin() == [DEFAULT, 2]
    settle(contest, c7=10.0, c2=8.0)
    assert contest.entrants() == [DEFAULT, 2, 6]
