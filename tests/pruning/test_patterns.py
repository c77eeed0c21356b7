"""Every pattern prunes what it should: how many weights, which of them, in its structure."""

import numpy as np
import pytest
from heavy_scores import scores_of, share

from autoq.errors import InputError
from autoq.pruning.matrices import prune_matrices
from autoq.pruning.pattern import KINDS, Pattern
from autoq.pruning.ranking import Bounds
from autoq.pruning.ties import Ties
from autoq.templates.sparse.compressed_vectors import compress, expand
from autoq.templates.sparse.pruned_matrix import Tile, TileWise, Vector

ANY = Bounds()
PATTERNS = {
    "ew": (Pattern.make("ew"), (0, 0.3, 0.9, 1)),
    "vw-4": (Pattern.make("vw"), (0, 0.5, 0.75, 1)),
    "vw-16": (Pattern.make("vw", 16), (0, 0.75, 0.9375)),
    "bw": (Pattern.make("bw", 4), (0, 0.5, 0.8, 1)),
    "tw": (Pattern.make("tw", 8), (0, 0.25, 0.75, 0.95, 1)),
    "trw": (Pattern.make("trw", 8, run=4), (0, 0.5, 0.75, 1)),
    "tew": (Pattern.make("tew", 8, delta=0.05), (0, 0.5, 0.9, 0.95)),
    "tvw-4": (Pattern.make("tvw", 8), (0.5, 0.75, 0.9, 1)),
    "tvw-16": (Pattern.make("tvw", 8, "4:16"), (0.75, 0.9)),
}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("shapes", [[(128, 96)], [(67, 45)], [(129, 33), (40, 70), (61, 64)]])
def test_the_share_of_pruned_weights_is_what_was_asked_for(name, shapes):
    pattern, sparsities = PATTERNS[name]
    assert {made.kind for made, _ in PATTERNS.values()} == set(KINDS)
    scores = scores_of(*shapes)
    for sparsity in sparsities:
        pruned = prune_matrices(scores, pattern, sparsity, [ANY] * len(scores))
        assert abs(share(pruned) - sparsity) <= 0.005
        assert [one.mask.shape for one in pruned] == shapes
        assert sum(one.stored for one in pruned) >= sum(int(one.mask.sum()) for one in pruned)


@pytest.mark.parametrize("shape", [(1, 400), (400, 1)])
def test_one_row_and_one_column(shape):
    for kind in ("ew", "vw", "tw", "trw", "tew"):
        size = {"granularity": 3} if kind.startswith("t") else {}
        run = {"run": 3} if kind == "trw" else {}
        pattern = Pattern.make(kind, **size, **run)
        (pruned,) = prune_matrices(scores_of(shape), pattern, 0.5, [ANY])
        assert abs(share([pruned]) - 0.5) <= 0.005
    with pytest.raises(InputError, match="comes to 0"):  # A row keeps one of one.
        prune_matrices([np.ones((1, 400))], Pattern.make("tvw", 2), 0.75, [ANY])


def test_elements_and_blocks_are_the_most_important_ones():
    (scores,) = scores_of((30, 22))
    (single,) = prune_matrices([scores], Pattern.make("ew"), 0.8, [ANY])
    assert scores[single.mask].min() > scores[~single.mask].max()
    (blocks,) = prune_matrices([scores], Pattern.make("bw", 2), 0.6, [ANY])
    means = scores.reshape(15, 2, 11, 2).mean(axis=(1, 3))
    assert means[blocks.kept].min() > means[~blocks.kept].max()
    (odd,) = prune_matrices([scores], Pattern.make("bw", 4), 0.6, [ANY])
    assert odd.kept.shape == (8, 6)
    assert all(len(np.unique(odd.mask[i : i + 4, -2:])) == 1 for i in range(0, 30, 4))


def test_vectors_keep_their_most_important_weights():
    (scores,) = scores_of((66, 9))
    (pruned,) = prune_matrices([scores], Pattern.make("vw", 16), 0.75)
    assert pruned.vector == Vector(4, 16)
    for start in range(0, 64, 16):
        for column in range(9):
            mask = pruned.mask[start : start + 16, column]
            part = scores[start : start + 16, column]
            assert mask.sum() == 4 and part[mask].min() > part[~mask].max()
    tail = pruned.mask[64:]
    assert tail.sum() == round(2 * 0.25 * 9) and tail.sum(axis=0).max() == 1


def test_tiles_prune_columns_and_then_rows_of_surviving_columns():
    """Algorithm 3, line by line, of one matrix."""
    (scores,) = scores_of((64, 100))
    (pruned,) = prune_matrices([scores], Pattern.make("tw", 16), 0.75, [ANY])
    columns = np.sort(np.argsort(scores.mean(axis=0))[50:])
    assert np.array_equal(pruned.columns, columns)
    assert [len(tile.columns) for tile in pruned.tiles] == [16, 16, 16, 2]
    assert np.array_equal(pruned.tiles[1].columns, columns[16:32])
    kept = np.concatenate([scores[np.ix_(t.rows, t.columns)].mean(axis=1) for t in pruned.tiles])
    gone = np.concatenate(
        [np.delete(scores, t.rows, axis=0)[:, t.columns].mean(axis=1) for t in pruned.tiles]
    )
    assert kept.min() > gone.max()
    assert len({len(tile.rows) for tile in pruned.tiles}) > 1


def test_runs_of_rows_stay_together():
    (pruned,) = prune_matrices(scores_of((70, 256)), Pattern.make("trw", 16, run=8), 0.6, [ANY])
    for tile in pruned.tiles:
        runs, counts = np.unique(tile.rows // 8, return_counts=True)
        assert np.array_equal(counts, np.minimum(8, 70 - runs * 8))


def test_tiles_and_the_best_elements_beside_them():
    (scores,) = scores_of((64, 80))
    (pruned,) = prune_matrices([scores], Pattern.make("tew", 16, delta=0.1), 0.7, [ANY])
    (tiles,) = prune_matrices([scores], Pattern.make("tw", 16), 0.8, [ANY])
    assert np.array_equal(pruned.mask & ~pruned.remainder, tiles.mask)
    assert not (pruned.remainder & tiles.mask).any()
    assert scores[pruned.remainder].min() > scores[~pruned.mask].max()
    assert pruned.remainder.sum() == pytest.approx(0.1 * scores.size, abs=64)


@pytest.mark.parametrize("vector", ["2:4", "4:16"])
def test_vectors_run_along_the_surviving_rows_of_a_tile(vector):
    pattern = Pattern.make("tvw", 16, vector)
    (scores,) = scores_of((67, 61))
    (pruned,) = prune_matrices([scores], pattern, 0.85, [ANY])
    kept, of = pattern.vector.kept, pattern.vector.of
    dense = np.where(pruned.mask, scores, 0)
    for tile in pruned.tiles:
        values = tile.values(scores)
        assert np.array_equal(values, dense[np.ix_(tile.rows, tile.columns)])
        for start in range(0, len(tile.rows) // of * of, of):
            assert ((values[start : start + of] != 0).sum(axis=0) == kept).all()
        packed, positions = compress(values, tile.kept, pattern.vector)
        assert packed.shape == positions.shape == (-(-len(tile.rows) // of) * kept, tile.shape[1])
        assert (np.diff(positions.reshape(-1, kept, tile.shape[1]).astype(int), axis=1) > 0).all()
        assert np.array_equal(expand(packed, positions, pattern.vector, len(values)), values)


def test_matrices_are_ranked_together_within_bounds():
    weak, strong = scores_of((64, 64), (64, 64))
    weak = weak / 100
    for pattern in (Pattern.make("ew"), Pattern.make("tw", 16), Pattern.make("tvw", 16)):
        free = prune_matrices([weak, strong], pattern, 0.6, [ANY, ANY])
        assert share(free[:1]) > 0.68 and share(free[1:]) < 0.55
        bounds = [Bounds(0, 0.65), Bounds(0.5, 1)]
        bound = prune_matrices([weak, strong], pattern, 0.6, bounds)
        assert share(bound[:1]) == pytest.approx(0.65, abs=0.02)
        assert abs(share(bound) - 0.6) <= 0.005
    by_default = prune_matrices([weak, strong], Pattern.make("ew"), 0.6)
    assert share(by_default[:1]) == pytest.approx(0.9, abs=0.001)


def test_dead_rows_go_first():
    scores = scores_of((64, 64), (64, 64))
    seen = []

    def dead_rows(columns):
        seen.extend(columns)
        return [np.zeros(64, bool), ~columns[0]]

    first, second = prune_matrices(scores, Pattern.make("tw", 16), 0.7, ties=Ties(dead_rows))
    assert np.array_equal(np.flatnonzero(seen[0]), first.columns)
    assert not second.mask[~seen[0]].any() and (~seen[0]).sum() > 10


REFUSED = {
    "sparsity 1.2": (Pattern.make("tw"), 1.2, None, "from 0 to 1"),
    "vw between": (Pattern.make("vw"), 0.6, None, "nearest is 0.5"),
    "tvw below": (Pattern.make("tvw"), 0.4, None, "0.5 or more"),
    "tew beyond": (Pattern.make("tew", delta=0.2), 0.9, None, "0.1 at most"),
    "coarse": (Pattern.make("bw", 64), 0.3, None, "comes to 0"),
    "bounds": (Pattern.make("ew"), 0.9, [Bounds(0, 0.5)], "allow 0 to 0.5"),
    "bounds reversed": (Pattern.make("ew"), 0.5, [Bounds(0.6, 0.5)], "least first"),
    "bounds of vw": (Pattern.make("vw"), 0.5, [Bounds(0.6, 1)], "take that in"),
    "bounds of tvw": (Pattern.make("tvw"), 0.5, [Bounds(0, 0.4)], "0.5 or more"),
    "two bounds": (Pattern.make("ew"), 0.5, [ANY, ANY], "each its own"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_pattern_cannot_have(name):
    pattern, sparsity, bounds, words = REFUSED[name]
    with pytest.raises(InputError, match=words):
        prune_matrices(scores_of((48, 48)), pattern, sparsity, bounds)


def test_a_tile_takes_zeros_for_no_row():
    tile = Tile(np.array([1, 3]), np.array([0, -1, 2]))
    matrix = TileWise((3, 4), 2, (tile,))
    values = tile.values(np.arange(1, 13).reshape(3, 4))
    assert values.tolist() == [[2, 4], [0, 0], [10, 12]]
    assert matrix.mask.sum() == 4 and matrix.stored == 6
