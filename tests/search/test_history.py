from __future__ import annotations

from math import inf

import numpy as np

from autoq.search.strategies.history import History
from autoq.search.trial import Trial


def test_the_fastest_trial_of_a_configuration_counts(space):
    config = next(space.enumerate())
    history = History(space)
    history.add([Trial(config, failure="timeout")])
    assert history.successes == 0
    history.add([Trial(config, seconds=2.0), Trial(config, seconds=3.0)])
    history.add([Trial(config, failure="runtime")])
    codes, seconds = history.arrays()
    assert seconds.tolist() == [2.0]
    assert space.config(int(codes[0])) == config
    assert history.successes == 1


def test_failures_are_infinite(space):
    history = History(space)
    history.add([Trial(next(space.enumerate()), failure="compile")])
    assert history.arrays()[1].tolist() == [inf]


def test_fill_takes_the_given_ones_first_and_never_seen_ones(space):
    history = History(space)
    rng = np.random.default_rng(0)
    history.hand_out(space.sample_codes(rng, 160))
    wanted = [code for code in space.sample_codes(rng, 168).tolist() if code not in history.seen]
    filled = history.fill(wanted[:3], 20, rng).tolist()
    assert filled[:3] == wanted[:3]
    assert sorted(filled) == sorted(wanted)
