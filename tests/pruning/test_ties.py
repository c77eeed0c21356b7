"""Matrices that are pruned with one another: shared rows, and how much of it columns take."""

from __future__ import annotations

import numpy as np
import pytest
from heavy_scores import scores_of, share

from autoq.pruning.matrices import prune_matrices
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds
from autoq.pruning.ties import Joint, Ties, apart

TW, TVW = Pattern.make("tw", 8), Pattern.make("tvw", 8)


def rows_of(pruned):
    """bool [k]: rows that some tile keeps."""
    return pruned.mask.any(axis=1)


@pytest.mark.parametrize("pattern", [TW, TVW])
@pytest.mark.parametrize("seed", range(3))
def test_tiles_of_a_group_keep_the_same_rows(pattern, seed):
    scores = scores_of((64, 96), (64, 33), (40, 64), (64, 90), seed=seed)
    ties = Ties(shared_rows=[(0, 1), (2,)])
    made = prune_matrices(scores, pattern, 0.75, [Bounds()] * 4, ties)
    assert abs(share(made) - 0.75) <= 0.005
    kept = [{tuple(tile.rows) for tile in one.tiles} for one in made]
    assert kept[0] == kept[1] and len(kept[0]) == len(kept[2]) == 1
    if pattern is TW:
        assert len(kept[3]) > 1


def test_shared_rows_are_the_most_important_ones_of_all_tiles():
    scores = scores_of((64, 48), (64, 24))
    bounds = [Bounds(0.75, 0.75)] * 2
    made = prune_matrices(scores, TW, 0.75, bounds, Ties(shared_rows=[(0, 1)]))
    columns = [one.mask.any(axis=0) for one in made]
    means = sum(one[:, kept].sum(axis=1) for one, kept in zip(scores, columns, strict=True))
    rows = rows_of(made[0])
    assert rows.sum() == 32 and means[rows].min() > means[~rows].max()


def test_dead_rows_of_a_group_go_first():
    dead = np.arange(64) % 4 == 0
    scores = scores_of((64, 48), (64, 24))
    ties = Ties(lambda columns: [dead, dead], shared_rows=[(0, 1)])
    made = prune_matrices(scores, TW, 0.75, [Bounds(0.75, 0.75)] * 2, ties)
    assert not rows_of(made[0])[dead].any()
    assert rows_of(made[0]).sum() == 32


@pytest.mark.parametrize("columns", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("pattern", [TW, TVW])
def test_columns_take_as_much_as_they_should(columns, pattern):
    """And rows as much of the matrix that is read by no other one."""
    scores = scores_of((64, 160), (160, 64))
    ties = Ties(leaving={0}, reading={1}, columns=columns)
    bounds = [Bounds(0.75, 0.75)] * 2
    made = prune_matrices(scores, pattern, 0.75, bounds, ties)
    left = 0.25 if pattern is TW else 0.5
    assert abs(share(made) - 0.75) <= 0.005
    for one, own in zip(made, (columns, 1 - columns), strict=True):
        kept = one.mask.any(axis=0).mean()
        assert left**own <= kept + 1e-9 <= left**own + 1 / one.shape[1] + 2e-9


def test_columns_that_leave_are_ranked_among_themselves():
    """However little the others are worth."""
    scores = scores_of((64, 64), (64, 64), (64, 64))
    scores[2] /= 1000
    ties = Ties(joint=[Joint((0, 1), 16)], leaving={0, 1}, reading={2}, columns=1.0)
    made = prune_matrices(scores, TW, 0.5, [Bounds(0, 0.9)] * 3, ties)
    heads = [one.mask.any(axis=0).reshape(4, 16) for one in made[:2]]
    assert np.array_equal(*heads) and heads[0].all(axis=1).sum() == heads[0].any(axis=1).sum() == 2
    assert made[2].mask.any(axis=0).all()


def test_columns_and_rows_are_even_where_a_matrix_is_read_and_reads():
    attention, perceptron, chain = ((0, 1, 2), (3,)), ((4,), (5,)), [((6,), (7,)), ((7,), (8,))]
    assert apart([attention, perceptron, *chain]) == ({0, 1, 2, 4}, {3, 5})
    assert apart([]) == (set(), set())
    ties = Ties(leaving={0}, reading={1}, columns=0.9)
    assert [ties.columns_of(place) for place in range(3)] == [0.9, pytest.approx(0.1), 0.5]
