"""What a pruner has pruned is recognised from the zeros."""

import numpy as np
import pytest

from autoq.pruning.matrices import prune_matrices
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds
from autoq.pruning.recognise import recognise
from autoq.templates.sparse.pruned_matrix import NO_ROW, TileWise

CASES = {
    "ew": (Pattern.make("ew"), 0.8),
    "vw-4": (Pattern.make("vw"), 0.5),
    "vw-16": (Pattern.make("vw", 16), 0.75),
    "bw": (Pattern.make("bw", 16), 0.75),
    "tw-16": (Pattern.make("tw", 16), 0.75),
    "tw-32": (Pattern.make("tw", 32), 0.9),
    "trw": (Pattern.make("trw", 16, run=8), 0.6),
    "tew": (Pattern.make("tew", 32, delta=0.05), 0.75),
    "tvw": (Pattern.make("tvw", 32), 0.75),
    "tvw-16": (Pattern.make("tvw", 32, "4:16"), 0.9),
}


def weights_of(shape, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) * rng.uniform(0.7, 1.3, (shape[0], 1)) + 1e-9


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", [(256, 192), (203, 157)])
def test_every_pruner_is_inverted(name, shape):
    pattern, sparsity = CASES[name]
    for seed in range(3):
        weights = weights_of(shape, seed)
        (pruned,) = prune_matrices([np.abs(weights)], pattern, sparsity, [Bounds()])
        first, *others = recognise(np.where(pruned.mask, weights, 0))
        assert (first.kind, type(first.structure)) == (pattern.kind, type(pruned))
        assert others or pattern.kind == "ew"
        for fit in (first, *others):
            assert np.array_equal(fit.structure.mask & pruned.mask, pruned.mask)
        assert first.structure.stored <= pruned.stored
        assert np.array_equal(first.structure.mask, pruned.mask)
        if pattern.kind == "vw":
            assert first.structure.vector == pruned.vector
        if pattern.kind not in ("ew", "vw"):
            assert first.structure.granularity == pattern.granularity
        if isinstance(pruned, TileWise):
            found = first.structure
            assert (found.run, found.vector) == (pruned.run, pruned.vector)
            if pattern.kind in ("tw", "trw"):
                assert_same_tiles(found, pruned)


def assert_same_tiles(found, pruned):
    assert len(found.tiles) == len(pruned.tiles)
    for one, other in zip(found.tiles, pruned.tiles, strict=True):
        assert np.array_equal(one.columns, other.columns)
        assert np.array_equal(one.rows, other.rows)


def test_rows_that_vectors_leave_empty():
    """The last tile has three columns, of which some rows keep none."""
    weights = weights_of((64, 70), 7)
    (pruned,) = prune_matrices([np.abs(weights)], Pattern.make("tvw", 16), 0.55, [Bounds()])
    last = pruned.tiles[-1]
    assert not last.kept.any(axis=1).all()
    structure = recognise(np.where(pruned.mask, weights, 0))[0].structure
    assert np.array_equal(structure.mask, pruned.mask)
    tile = structure.tiles[-1]
    assert NO_ROW in tile.rows and len(tile.rows) % 4 in (
        0,
        len(tile.rows) - len(tile.rows) // 4 * 4,
    )
    values = np.where(pruned.mask, weights, 0)
    assert np.array_equal(
        tile.values(weights)[tile.rows != NO_ROW],
        values[np.ix_(tile.rows[tile.rows != NO_ROW], tile.columns)],
    )
    groups = [tile.kept[i : i + 4].sum(axis=0).max() for i in range(0, len(tile.rows), 4)]
    assert max(groups) <= 2


def test_zeros_by_chance_do_not_hide_a_pattern():
    weights = weights_of((256, 192), 0)
    (pruned,) = prune_matrices([np.abs(weights)], Pattern.make("tw", 32), 0.75, [Bounds()])
    kept = pruned.mask & (np.random.default_rng(1).random(weights.shape) > 0.02)
    first = recognise(np.where(kept, weights, 0))[0]
    assert (first.kind, first.structure.granularity) == ("tw", 32)
    assert np.array_equal(first.structure.mask, pruned.mask)


def test_nothing_and_everything_pruned():
    assert recognise(np.ones((8, 8))) == []
    fits = recognise(np.zeros((64, 64)))
    assert {fit.structure.stored for fit in fits} == {0} and fits[-1].kind == "ew"
    few = np.ones((64, 64))
    few[3, 5] = 0
    assert [fit.kind for fit in recognise(few)] == ["ew"]
