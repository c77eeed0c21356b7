"""The default strategy with the estimates of templates as its prior, and without any."""

from __future__ import annotations

import numpy as np
import pytest
from tiled_space import TileConfig, recorded, tile_seconds, tile_space

from autoq.search.registry import STRATEGIES
from autoq.search.replay import optimum, replay
from autoq.search.search_space import ESTIMATE
from autoq.search.space import Space
from autoq.search.strategies.informed import Informed
from autoq.search.trial import Trial
from autoq.search.union import Candidate, UnionSpace


@pytest.fixture(scope="module")
def measured():
    return recorded()


def estimated_space() -> Space[TileConfig]:
    """The analytic GEMM with an estimate that is three times too small and blind to two knobs."""

    def features(config: TileConfig) -> dict[str, float]:
        seen = TileConfig(
            config.tile_m, config.tile_n, config.tile_k, config.stages, config.warps, True, "row"
        )
        return {ESTIMATE: tile_seconds(seen) / 3}

    plain = tile_space()
    return Space(TileConfig, plain.knobs, plain.constraints, features)


START = TileConfig(64, 64, 64, 2, 4, True, "row")


def after_default(space, seed: int) -> Informed:
    strategy = Informed(space, seed)
    strategy.tell([Trial(START, seconds=tile_seconds(START))])
    return strategy


def test_an_estimate_saves_trials(measured):
    def final(make):
        runs = [replay(make(seed), measured, 24, batch=8) for seed in range(21)]
        return float(np.median([optimum(measured) / run[-1] for run in runs]))

    led = final(lambda seed: after_default(estimated_space(), seed))
    assert led > 0.95
    assert led > final(lambda seed: STRATEGIES["random"](estimated_space(), seed)) + 0.1


def test_finds_faster_configurations_than_chance_without_an_estimate(measured):
    def final(make):
        runs = [replay(make(seed), measured, 96, batch=None) for seed in range(9)]
        return float(np.median([optimum(measured) / run[-1] for run in runs]))

    found = final(lambda seed: after_default(tile_space(), seed))
    assert found > final(lambda seed: STRATEGIES["random"](tile_space(), seed)) + 0.1


def test_a_failure_counts_as_slow_and_is_no_start():
    space = estimated_space()
    strategy = after_default(space, 0)
    failed = space.sample(np.random.default_rng(1), 20)
    strategy.tell([Trial(config, failure="compile") for config in failed])
    asked = strategy.ask(16)
    assert len(asked) == 16 and not set(asked) & set(failed)


def test_most_trials_go_to_the_template_that_leads():
    space = UnionSpace({"leads": estimated_space(), "lags": estimated_space()})
    strategy = Informed(space, 0)
    strategy.tell([Trial(Candidate("leads", START), 1e-5), Trial(Candidate("lags", START), 1.7e-5)])
    asked = [strategy.ask(16), strategy.ask(16)]
    counts = [sum(candidate.template == "lags" for candidate in batch) for batch in asked]
    assert 1 <= sum(counts) <= 6
