"""A recorded sub-space: legal is what was recorded, and moves stay inside."""

from __future__ import annotations

import numpy as np
import pytest
from small_spaces import small_space, union_space
from tiled_space import recorded, tile_space

from autoq.errors import ConfigError
from autoq.search import STRATEGIES
from autoq.search.recorded_space import RecordedSpace
from autoq.search.replay import optimum, replay


def part_of(space, n=60, seed=0):
    return space.sample(np.random.default_rng(seed), n)


@pytest.mark.parametrize("make", [small_space, union_space])
def test_moves_and_draws_are_recorded(make):
    space = make()
    configs = part_of(space)
    sub = RecordedSpace(space, configs)
    rng = np.random.default_rng(1)
    known = set(configs)
    assert sub.size == len(known) == len(list(sub.enumerate()))
    codes = sub.sample_codes(rng, 40)
    assert len(set(codes.tolist())) == 40
    mutants = sub.mutate_codes(np.repeat(codes, 8), rng)
    assert {sub.config(code) for code in mutants.tolist()} <= known
    assert (mutants != np.repeat(codes, 8)).mean() > 0.9


def test_other_configurations_are_refused():
    space = small_space()
    configs = part_of(space)
    sub = RecordedSpace(space, configs[1:])
    assert configs[0] not in sub and sub.rejection(configs[0]) == "it was not recorded"
    with pytest.raises(ConfigError, match="not recorded"):
        sub.code(configs[0])
    with pytest.raises(ConfigError, match="at least one"):
        RecordedSpace(space, [])


def test_codes_and_features_are_those_of_the_whole_space():
    space = union_space()
    sub = RecordedSpace(space, part_of(space))
    codes = sub.sample_codes(np.random.default_rng(2), 30)
    assert [space.code(sub.config(code)) for code in codes.tolist()] == codes.tolist()
    np.testing.assert_array_equal(sub.encode_codes(codes), space.encode_codes(codes))
    np.testing.assert_array_equal(sub.knob_rows(codes), space.knob_rows(codes))


def test_neighbours_are_nearest():
    space = tile_space()
    sub = RecordedSpace(space, part_of(space, 200))
    rng = np.random.default_rng(3)
    codes = sub.sample_codes(rng, 200)
    knobs = space.knob_rows(codes)
    for code in codes[:10].tolist():
        distance = (space.knob_rows(np.array([code])) != knobs).sum(axis=1)
        reach = np.sort(distance)[8]
        moved = sub.mutate_codes(np.full(100, code), rng)
        assert ((space.knob_rows(moved) != space.knob_rows(np.array([code]))).sum(1) <= reach).all()


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_searches_a_part_to_its_end(name):
    if name == "tpe":
        pytest.importorskip("optuna")
    measured = recorded()
    space = tile_space()
    configs = part_of(space, 90)
    part = {config: measured[config] for config in configs}
    curve = replay(STRATEGIES[name](RecordedSpace(space, configs), 0), part, trials=500)
    assert len(curve) == len(part)
    assert curve[-1] == optimum(part)
