"""Lists that are measured without looking back, alone and as a strategy."""

from __future__ import annotations

import numpy as np
from small_spaces import small_space, union_space
from tiled_space import TileConfig, recorded, tile_seconds, tile_space

from autoq.search import Trial
from autoq.search.recorded_space import RecordedSpace
from autoq.search.registry import make_strategy
from autoq.search.replay import optimum, replay
from autoq.search.search_space import ESTIMATE
from autoq.search.space import Space
from autoq.search.strategies.listed import Listed, list_order


def test_every_eighth_place_goes_to_the_estimates_of_the_member_that_leads():
    slowness = np.arange(240.0)
    members = ["a", "b"] * 120
    estimates = np.where(slowness % 2 == 0, 40 - slowness, 1e-9)
    estimates[slowness >= 30] = 100
    found = list_order(slowness, estimates, members, 17)
    # Of a, whose rows are even, those below 30 have the least estimates, the last of them first.
    assert found.tolist() == [*range(7), 28, *range(7, 14), 26, 14]


def test_estimates_end_at_the_first_that_the_model_holds_for_slow():
    slowness = np.arange(160.0)
    estimates = 1 + slowness
    estimates[[18, 25, 19]] = 0.1, 0.2, 0.3
    # Rows 18 and 19 are among the fastest eighth, 20 of 160, and 25 is not: 19 comes behind it.
    found = list_order(slowness, estimates, ["a"] * 160, 24)
    assert found.tolist() == [*range(7), 18, *range(7, 18), 19, *range(20, 24)]
    # Among a few any estimate of the first eight may stand.
    few = list_order(np.arange(20.0), np.where(np.arange(20) == 7, 0.0, 1.0), ["a"] * 20, 8)
    assert few.tolist() == [*range(8)]
    few = list_order(np.arange(20.0), np.where(np.arange(20) == 8, 0.0, 1.0), ["a"] * 20, 20)
    assert few.tolist() == [*range(20)]


def test_of_equal_estimates_the_model_says_which_is_first():
    slowness = np.random.default_rng(0).permutation(20.0 * np.arange(1, 21))
    found = list_order(slowness, np.full(20, 1e-6), ["a"] * 20, 20)
    assert found.tolist() == np.argsort(slowness).tolist()


def test_a_list_is_of_the_model_alone_where_nothing_is_estimated():
    slowness = np.random.default_rng(0).random(20)
    found = list_order(slowness, np.full(20, np.nan), ["a", "b"] * 10, 32)
    assert found.tolist() == np.argsort(slowness).tolist()


def test_every_row_comes_once_where_all_are_asked_for():
    rng = np.random.default_rng(1)
    estimates = np.where(rng.random(30) < 0.5, np.nan, rng.random(30))
    found = list_order(rng.random(30), estimates, ["a", "b", "c"] * 10, 100)
    assert sorted(found.tolist()) == [*range(30)]


def test_the_strategy_asks_for_the_places_of_the_list_in_their_order():
    whole = estimated_space()
    configs = whole.sample(np.random.default_rng(2), 300)
    space = RecordedSpace(whole, configs)
    slowness = np.array([guess(config) for config in configs])
    estimates = np.array([estimate(config) for config in configs])
    known = {space.code(config): slow for config, slow in zip(configs, slowness, strict=True)}
    strategy = make_strategy("listed", space, 0, lambda codes: np.array([*map(known.get, codes)]))
    rows = list_order(slowness, estimates, [0] * 300, 40)
    assert rows.tolist() != np.argsort(slowness)[:40].tolist()
    asked = strategy.ask(3)
    strategy.tell([Trial(config, seconds=1.0) for config in asked])
    # What is told from elsewhere is passed over, and of what was asked for nothing is.
    strategy.tell([Trial(configs[rows[5]], failure="runtime")])
    asked += strategy.ask(36)
    assert asked == [configs[row] for row in rows if row != rows[5]]


def test_a_list_of_a_space_too_large_to_look_at_climbs_to_what_the_prior_promises():
    space, measured = estimated_space(), recorded()
    assert space.size > 4096

    def prior(codes):
        return np.array([guess(space.config(code)) for code in codes.tolist()])

    runs = [replay(Listed(space, seed, prior), measured, 8) for seed in range(11)]
    chance = [replay(make_strategy("random", space, seed), measured, 8) for seed in range(11)]
    found = np.median([optimum(measured) / run[-1] for run in runs])
    assert found > 0.9 > np.median([optimum(measured) / run[-1] for run in chance]) + 0.1


def test_without_a_prior_members_take_turns():
    space = union_space()
    asked = Listed(space, 0).ask(10)
    names = [one.template for one in asked]
    assert sorted(names[:2]) == sorted(space.members)
    assert {names.count(name) for name in space.members} == {5}


def test_nothing_is_asked_for_twice_and_all_of_a_small_space_is_asked_for():
    space = small_space()
    strategy = Listed(space, 0)
    asked = [config for _ in range(100) for config in strategy.ask(7)]
    assert len(asked) == len(set(asked))
    assert set(asked) == set(space.enumerate())
    assert strategy.ask(7) == []


def estimate(config: TileConfig) -> float:
    """A third of the time, blind to two knobs."""
    seen = TileConfig(
        config.tile_m, config.tile_n, config.tile_k, config.stages, config.warps, True, "row"
    )
    return tile_seconds(seen) / 3


def estimated_space() -> Space[TileConfig]:
    """The analytic GEMM with that estimate."""
    plain = tile_space()
    return Space(
        TileConfig, plain.knobs, plain.constraints, lambda config: {ESTIMATE: estimate(config)}
    )


def guess(config: TileConfig) -> float:
    """A model's log of the time, which errs by a tenth, always alike."""
    noise = np.random.default_rng([*str(config).encode()]).standard_normal()
    return float(np.log(tile_seconds(config)) + 0.1 * noise)
