"""The default strategy where a prior knows only some templates of a union, or none."""

from __future__ import annotations

import numpy as np
from small_spaces import union_space

from autoq.search.strategies.informed import Informed
from autoq.search.trial import Trial


def asked(prior, seconds, questions=4, n=8, seed=0):
    """What a search of the small union asks for, a question after the other."""
    strategy = Informed(union_space(), seed, prior)
    found = []
    for _ in range(questions):
        chosen = strategy.ask(n)
        strategy.tell([Trial(one, seconds=seconds(one)) for one in chosen])
        found.append(chosen)
    return found


def seconds(one):
    """The template `split` is ten times as fast as the other, the more so the larger its tile."""
    return (1e-3 if one.template == "direct" else 1e-4) / one.config.tile


def test_a_template_that_a_prior_does_not_know_is_tried_and_found_to_be_the_fastest():
    space = union_space()

    def prior(codes):
        # As if the known template were about to win by far.
        return np.where(space.members_of(codes) == 0, np.log(1e-3) - codes / 1e6, np.nan)

    for seed in range(8):
        first, *later = asked(prior, seconds, seed=seed)
        tried = {one.template for one in first}
        assert tried == {"direct", "split"}
        best = min((one for chosen in (first, *later) for one in chosen), key=seconds)
        assert (best.template, best.config.tile) == ("split", 96)


def test_a_prior_that_knows_nothing_changes_nothing():
    def prior(codes):
        return np.full(len(codes), np.nan)

    for seed in range(3):
        assert asked(prior, seconds, seed=seed) == asked(None, seconds, seed=seed)
