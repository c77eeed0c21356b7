"""Pruning in stages."""

import numpy as np
import pytest

from autoq.errors import InputError
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds
from autoq.pruning.schedule import Reads, prune_in_stages, stage_sparsities

SPARSITIES = {
    "tw": (Pattern.make("tw"), 0.75, 0.25, [0.25, 0.5, 0.75]),
    "a smaller last step": (Pattern.make("ew"), 0.9, 0.4, [0.4, 0.8, 0.9]),
    "one step": (Pattern.make("ew"), 0.6, 1, [0.6]),
    "nothing": (Pattern.make("ew"), 0.0, 0.5, []),
    "tvw": (Pattern.make("tvw"), 0.75, 0.2, [0.5, 0.6, 0.75]),
    "vw": (Pattern.make("vw", 16), 0.75, 0.3, [0.25, 0.5625, 0.75]),
    "vw of four": (Pattern.make("vw"), 0.5, 0.1, [0.25, 0.5]),
}


@pytest.mark.parametrize("name", SPARSITIES)
def test_stages(name):
    pattern, sparsity, step, expected = SPARSITIES[name]
    assert stage_sparsities(pattern, sparsity, step) == pytest.approx(expected)


def test_each_stage_ranks_what_the_one_before_left():
    rng = np.random.default_rng(0)
    weights = {"a": rng.standard_normal((64, 48)), "b": rng.standard_normal((48, 64))}
    seen = []

    def fine_tune(stage):
        seen.append(stage)
        for name, mask in stage.masks.items():
            assert not stage.weights[name][~mask].any()
        # Training that knows no masks, and makes of the first rows the largest weights.
        return {name: one + 1 + 9 * (np.arange(len(one)) < 8)[:, None]
                for name, one in stage.weights.items()}  # fmt: skip

    last = prune_in_stages(weights, Pattern.make("ew"), 0.75, 0.25, fine_tune)
    assert [stage.sparsity for stage in seen] == [0.25, 0.5, 0.75]
    kept = sum(np.count_nonzero(one) for one in last.weights.values())
    assert kept / (2 * 64 * 48) == pytest.approx(0.25, abs=0.005)
    for name, mask in last.masks.items():
        assert not last.weights[name][~mask].any()
        # What the first stage kept of these rows grew, and stays.
        assert np.array_equal(mask[:8], seen[0].masks[name][:8])
    assert np.array_equal(weights["a"], np.random.default_rng(0).standard_normal((64, 48)))


def test_scores_and_bounds_are_asked_for():
    weights = {"a": np.ones((32, 32)), "b": np.ones((32, 32))}
    ranks = {"a": np.ones((32, 32)), "b": np.full((32, 32), 2.0)}
    bounds = {"a": Bounds(0, 0.75)}
    last = prune_in_stages(weights, Pattern.make("ew"), 0.5, 0.5, None, lambda _: ranks, bounds)
    assert (last.masks["a"].mean(), last.masks["b"].mean()) == (0.25, 0.75)


WEIGHTS = {"a": np.ones((8, 8))}
REFUSED = {
    "no step": (lambda: stage_sparsities(Pattern.make("ew"), 0.5, 0), "step 0"),
    "sparsity": (lambda: stage_sparsities(Pattern.make("ew"), 1.2, 0.1), "from 0 to 1"),
    "nothing trained": (
        lambda: prune_in_stages(WEIGHTS, Pattern.make("ew"), 0.5, 0.5, lambda stage: {}),
        "fine_tune returns nothing for the weight 'a'",
    ),
    "scores": (
        lambda: prune_in_stages(
            WEIGHTS, Pattern.make("ew"), 0.5, 0.5, None, lambda _: {"a": np.ones(8)}
        ),
        r"score returns \[8\] for the weight 'a' of \[8, 8\]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, words = REFUSED[name]
    with pytest.raises(InputError, match=words):
        call()


def test_rows_of_constant_channels_go_first_and_sums_prune_the_same_columns():
    rng = np.random.default_rng(4)
    weights = {name: rng.standard_normal((48, 32)) for name in ("one", "two")}
    weights["reader"] = rng.standard_normal((9 * 32, 48))
    alike = {name: Bounds(0.75, 0.75) for name in weights}
    pattern = Pattern.make("tw", 16)
    for together in (False, True):
        reads = Reads({"reader": ("one", "two")}, together)
        stage = prune_in_stages(weights, pattern, 0.75, 1.0, bounds=alike, reads=reads)
        one, two = (stage.masks[name].any(axis=0) for name in ("one", "two"))
        assert (one == two).all() == together
        dead = ~(one | two)
        assert dead.any() and not stage.masks["reader"][np.tile(dead, 9)].any()
    with pytest.raises(InputError, match="reads 'three': no weight; they are one, two, reader"):
        prune_in_stages(weights, pattern, 0.75, 1.0, reads=Reads({"reader": ("three",)}))
