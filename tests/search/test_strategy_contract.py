"""What every strategy must do, on a plain space and on a union."""

from __future__ import annotations

import numpy as np
import pytest
from small_spaces import small_space, union_space

from autoq.search import STRATEGIES, Candidate, Trial, UnionSpace
from autoq.search.registry import ABLATIONS

SPACES = {
    "space": small_space,
    "union": union_space,
    "one-member union": lambda: UnionSpace({"direct": small_space()}),
}
# Ablations differ from ours in what they leave out, not in how they see a space; of a union with
# one member only those that share trials out among members make something of their own.
CASES = [
    *((name, space) for name in STRATEGIES for space in ("space", "union")),
    *((name, "one-member union") for name in ("informed", "random", "diverse")),
    *((name, "union") for name in ABLATIONS),
]


@pytest.fixture(params=CASES, ids="-".join, scope="module")
def case(request):
    if request.param[0] == "tpe":
        pytest.importorskip("optuna")
    return request.param


@pytest.fixture(scope="module")
def any_space(case):
    return SPACES[case[1]]()


@pytest.fixture(scope="module")
def make(case):
    return {**STRATEGIES, **ABLATIONS}[case[0]]


@pytest.fixture(scope="module")
def asked(make, any_space):
    """What seed 0 asks for in three batches of 20."""
    return search(make(any_space, 0), batches=3, n=20)


def measure(config) -> Trial:
    inner = config.config if isinstance(config, Candidate) else config
    if inner.tile == 16:
        return Trial(config, failure="runtime")
    return Trial(config, seconds=1e-3 / inner.tile)


def search(strategy, batches: int, n: int, measured=measure) -> list:
    asked = []
    for _ in range(batches):
        configs = strategy.ask(n)
        asked += configs
        strategy.tell([measured(config) for config in configs])
    return asked


def test_asks_for_legal_distinct_configurations(asked, any_space):
    assert len(asked) == 60
    assert len(set(asked)) == 60
    assert all(config in any_space for config in asked)


def test_ask_without_tell_does_not_repeat(make, any_space):
    strategy = make(any_space, 0)
    asked = [config for _ in range(4) for config in strategy.ask(8)]
    assert len(set(asked)) == 32


def test_same_seed_gives_same_sequence(make, any_space, asked):
    assert search(make(any_space, 0), 3, 20) == asked


def test_other_seed_gives_other_sequence(make, any_space, asked):
    assert search(make(any_space, 8), 2, 20) != asked[:40]


def test_survives_failures_only(make, any_space):
    def fail(config):
        return Trial(config, failure="compile")

    assert len(set(search(make(any_space, 0), 3, 20, fail))) == 60


def test_survives_equal_times(make, any_space):
    def same(config):
        return Trial(config, seconds=1e-3)

    assert len(set(search(make(any_space, 0), 3, 20, same))) == 60


def test_ends_when_every_configuration_was_seen(make, any_space):
    everything = set(any_space.enumerate())
    strategy = make(any_space, 0)
    asked: list = []
    while configs := strategy.ask(128):
        asked += configs
        strategy.tell([measure(config) for config in configs])
    assert len(asked) == len(everything)
    assert set(asked) == everything
    assert strategy.ask(1) == []


def test_old_records_are_not_asked_for_again(make, any_space):
    old = any_space.sample(np.random.default_rng(3), 70)
    strategy = make(any_space, 0)
    strategy.tell([measure(config) for config in old])
    assert not set(old) & set(search(strategy, 2, 20))


def test_records_outside_the_space_are_passed_over(make, any_space):
    strategy = make(any_space, 0)
    strategy.tell([Trial("of another template", seconds=1e-6), Trial(("?", 1), failure="timeout")])
    assert len(search(strategy, 2, 20)) == 40


def test_small_asks(make, any_space):
    strategy = make(any_space, 0)
    search(strategy, 1, 64)
    assert [len(strategy.ask(n)) for n in (0, 1, 3)] == [0, 1, 3]
