from __future__ import annotations

import numpy as np
import pytest

from autoq.search.strategies.diversity import cover_values, farthest_first, hamming


def test_hamming_counts_differing_knobs():
    assert hamming(np.array([[0, 0, 0], [0, 1, 2], [-1, 1, 2]])).tolist() == [
        [0, 2, 3],
        [2, 0, 1],
        [3, 1, 0],
    ]


def test_starts_from_the_best_and_takes_the_farthest():
    knobs = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 1], [0, 1, 1]])
    kept = farthest_first(knobs, 2, np.array([0.0, 9.0, 0.0, 1.0]))
    assert kept.tolist() == [1, 2]


def test_scores_break_ties_only():
    knobs = np.array([[0, 0], [0, 1], [0, 2], [1, 3]])
    kept = farthest_first(knobs, 3, np.array([10.0, 1.0, 5.0, -100.0]))
    assert kept.tolist() == [0, 3, 2]


def test_repeated_rows_come_last():
    knobs = np.array([[0, 0], [0, 0], [0, 1], [0, 0]])
    kept = farthest_first(knobs, 4, np.array([3.0, 4.0, 0.0, 5.0]))
    assert kept.tolist()[:2] == [3, 2]
    assert sorted(kept.tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("keep", [0, 1, 5, 9])
def test_keeps_as_many_as_asked(keep):
    rng = np.random.default_rng(0)
    kept = farthest_first(rng.integers(0, 3, (7, 4)), keep, rng.random(7))
    assert len(kept) == len(set(kept.tolist())) == min(keep, 7)


def test_kept_half_is_more_diverse_than_a_random_half():
    rng = np.random.default_rng(1)
    knobs = rng.geometric(0.5, (256, 6))
    kept = farthest_first(knobs, 128, rng.random(256))
    drawn = rng.permutation(256)[:128]
    assert hamming(knobs[kept]).mean() > 1.1 * hamming(knobs[drawn]).mean()


def test_cover_values_prefers_unseen_values_then_order():
    assert cover_values([[0, 0], [0, 1], [1, 1], [0, 0]], 3) == [0, 2, 1]
    assert cover_values([], 3) == []
