"""Replays on the analytic space: the numbers that claims about search are made of."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from tiled_space import recorded, tile_space

from autoq.errors import AutoqError
from autoq.search import STRATEGIES, Trial
from autoq.search.compare import compare, table
from autoq.search.replay import optimum, replay, trials_to_reach


@pytest.fixture(scope="module")
def measured():
    return recorded()


def test_the_space_is_not_easy(measured):
    seconds = np.array([trial.seconds or inf for trial in measured.values()])
    assert 2500 < len(measured) < 5000
    assert (~np.isfinite(seconds)).any()
    assert (seconds <= seconds.min() / 0.9).mean() < 0.01


def test_replay_returns_the_best_so_far(measured):
    curve = replay(STRATEGIES["random"](tile_space(), 0), measured, trials=70, batch=32)
    assert curve.shape == (70,)
    assert (np.diff(curve[np.isfinite(curve)]) <= 0).all()


def test_replay_of_a_whole_space_ends_at_the_optimum(measured):
    curve = replay(STRATEGIES["random"](tile_space(), 0), measured, trials=10_000, batch=512)
    assert len(curve) == len(measured)
    assert curve[-1] == optimum(measured)


def test_replay_measures_what_comes_first_and_tells_it(measured):
    first = sorted(measured, key=lambda one: measured[one].seconds or inf)[40:43]
    strategy = STRATEGIES["random"](tile_space(), 0)
    curve = replay(strategy, measured, trials=20, batch=8, first=first)
    alone = replay(STRATEGIES["random"](tile_space(), 0), measured, trials=17, batch=8)
    assert curve[:3].tolist() == [measured[first[0]].seconds] * 3
    assert len(curve) == 20 and curve[-1] <= min(curve[0], alone[-1])
    assert replay(strategy, measured, trials=2, first=first).shape == (2,)
    whole = replay(STRATEGIES["random"](tile_space(), 0), measured, 10_000, 512, first)
    assert len(whole) == len(measured)  # none of the first is asked for again


def test_replay_refuses_what_was_not_recorded(measured):
    with pytest.raises(AutoqError, match="not among the 0 recorded"):
        replay(STRATEGIES["random"](tile_space(), 0), {}, trials=1)


def test_trials_to_reach_counts_from_one():
    curve = np.array([inf, 4.0, 2.0, 1.0])
    assert trials_to_reach(curve, 1.0, 0.5) == 3
    assert trials_to_reach(curve, 1.0, 1.0) == 4
    assert trials_to_reach(curve, 0.5, 0.9) == inf


def test_optimum_of_failures_only_is_infinite():
    assert optimum({1: Trial(1, failure="compile")}) == inf


def test_diverse_annealing_beats_random_search(measured):
    names = ("random", "diverse")
    strategies = {name: STRATEGIES[name] for name in names}
    rows = compare(tile_space(), measured, strategies, range(4), trials=128)
    final = {row.strategy: float(np.median(row.curves[:, -1])) for row in rows}
    assert final["diverse"] > final["random"] + 0.05
    assert final["diverse"] > 0.9


def test_the_table_has_a_line_for_each_strategy(measured):
    rows = compare(
        tile_space(), measured, {"random": STRATEGIES["random"]}, range(3), 64, fractions=(0.5, 1.0)
    )
    lines = table(rows).splitlines()
    assert lines[0] == "| strategy | 50% median (p90) | 100% median (p90) | final |"
    assert lines[2].startswith("| random |")
    assert rows[0].band().shape == (3, 64)
    assert table([]).splitlines()[0] == "| strategy | final |"
