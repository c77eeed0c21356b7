from __future__ import annotations

import numpy as np
import pytest

from autoq.search.strategies.walk import BestSet, Challenge, Schedule, anneal


def test_the_schedule_is_the_paper_s():
    assert Schedule() == Schedule(128, 500, 50, 1.0, 0.002)


def test_best_set_keeps_the_n_best_that_are_not_excluded():
    best = BestSet(2, exclude={9})
    assert best.offer(np.array([1, 9, 2]), np.array([0.1, 5.0, 0.2]))
    assert not best.offer(np.array([3, 1]), np.array([0.05, 0.1]))
    assert best.offer(np.array([4, 4]), np.array([0.3, 0.3]))
    assert best.ranked() == [(4, 0.3), (2, 0.2)]


def test_best_set_of_nothing_stays_empty():
    assert not BestSet(0, set()).offer(np.array([1]), np.array([1.0]))


def step_right(points: np.ndarray, rng: np.random.Generator) -> list[Challenge]:
    return [Challenge(np.arange(len(points)), points + 1, (points + 1).astype(float))]


@pytest.mark.parametrize(("iterations", "end"), [(0, 0), (7, 7)])
def test_better_challengers_are_always_accepted(iterations, end):
    best = BestSet(1, set())
    schedule = Schedule(points=4, iterations=iterations)
    rng = np.random.default_rng(0)
    points = anneal(
        np.zeros(4, np.int64), lambda c: c.astype(float), step_right, best, schedule, rng
    )
    assert points.tolist() == [end] * 4
    assert best.ranked() == [(end, float(end))]


def test_stops_when_the_best_set_does_not_change():
    steps = []

    def stay(points: np.ndarray, rng: np.random.Generator) -> list[Challenge]:
        steps.append(1)
        return [Challenge(np.arange(len(points)), points, np.zeros(len(points)))]

    starts = np.zeros(2, np.int64)
    rng = np.random.default_rng(0)
    anneal(starts, lambda c: np.zeros(len(c)), stay, BestSet(1, set()), Schedule(patience=5), rng)
    assert len(steps) == 5


def test_a_cold_walk_rejects_worse_challengers():
    def worse(points: np.ndarray, rng: np.random.Generator) -> list[Challenge]:
        return [Challenge(np.arange(len(points)), points + 1, np.full(len(points), -1.0))]

    schedule = Schedule(temperature=0.0, cooling=0.0, patience=10)
    rng = np.random.default_rng(0)
    starts = np.zeros(8, np.int64)
    points = anneal(starts, lambda c: np.zeros(len(c)), worse, BestSet(1, set()), schedule, rng)
    assert points.tolist() == [0] * 8
