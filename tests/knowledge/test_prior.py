"""A search that begins with what a model of records predicts."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from autoq.knowledge.held_out import COUNTS, HeldOut
from autoq.knowledge.prior import prior_of
from autoq.knowledge.training import gathered, lessons_of, model_of
from autoq.measure.job import REGISTRY
from autoq.records.recorded_space import read_space
from autoq.replaying.loading import prepare, target_of
from autoq.search.registry import make_strategy
from autoq.search.replay import optimum, replay, trials_to_reach
from autoq.tuning.asking import LocalAsker, Question, SearchSettings


@pytest.fixture(scope="module")
def model(spaces, templates):
    """Made of all but the first."""
    return model_of(spaces[1:], templates)


def parts(spaces, templates):
    recorded = read_space(spaces[0])
    found = prepare(recorded, templates)
    target = target_of(recorded)
    return found, found.union, target


def test_a_search_finds_with_a_prior_what_it_seeks_without_for_long(spaces, model, templates):
    found, union, target = parts(spaces, templates)
    versions = {name: one.version for name, one in templates.items()}
    prior = prior_of(model, found.recorded.workload, union, target, versions)
    best = optimum(found.measured)

    def trials(known):
        return np.median([
            trials_to_reach(replay(make_strategy("informed", found.space, seed, known),
                                   found.measured, 16, 8), best, 0.9)
            for seed in range(4)
        ])  # fmt: skip

    assert trials(prior) < 0.7 * trials(None)


def test_the_list_that_people_tune_with_is_the_one_that_left_out_shapes_judge(spaces, templates):
    versions = {name: one.version for name, one in templates.items()}
    few = model_of(spaces[:1], templates)
    judged = []
    for path in spaces[1:]:
        (lesson,) = lessons_of(gathered([path]), templates)
        held_out = HeldOut(lesson, templates)
        held_out.rank(few, COUNTS, seed=0)
        judged.append(held_out.left_out(COUNTS).shares[0])
        found = prepare(read_space(path), templates)
        target = target_of(found.recorded)
        prior = prior_of(few, found.recorded.workload, found.union, target, versions)
        curve = replay(make_strategy("listed", found.space, 1, prior), found.measured, COUNTS[-1])
        best = optimum(found.measured)
        assert judged[-1] == pytest.approx([best / curve[min(n, len(curve)) - 1] for n in COUNTS])
    # A list that had the fastest first of all would look like any other.
    assert np.min(judged) < 0.97


def test_nothing_is_known_of_other_templates_and_versions(spaces, model, templates):
    found, union, target = parts(spaces, templates)
    workload = found.recorded.workload
    codes = union.sample_codes(np.random.default_rng(0), 20)
    now = {"conv2d_mma_sync": templates["conv2d_mma_sync"].version}
    assert np.isfinite(prior_of(model, workload, union, target, now)(codes)).all()
    for versions in ({}, {"conv2d_mma_sync": now["conv2d_mma_sync"] + 1}):
        assert np.isnan(prior_of(model, workload, union, target, versions)(codes)).all()


def test_a_tuner_asks_for_what_its_model_predicts(spaces, model, templates):
    found, union, target = parts(spaces, templates)
    question = Question(0, found.recorded.workload, ("conv2d_mma_sync",), 0, 8, ())
    settings = SearchSettings(REGISTRY, target, "informed", model)
    # Strategies get it in processes of their own.
    knowing = LocalAsker(pickle.loads(pickle.dumps(settings))).ask(question).result()
    unknowing = LocalAsker(SearchSettings(REGISTRY, target, "informed")).ask(question).result()
    versions = {"conv2d_mma_sync": templates["conv2d_mma_sync"].version}
    prior = prior_of(model, found.recorded.workload, union, target, versions)

    def slowness(candidates):
        return prior(np.array([union.code(one) for one in candidates])).mean()

    assert slowness(knowing) < slowness(unknowing) - 0.05
    other = SearchSettings(REGISTRY, target, "random", model)
    assert len(LocalAsker(other).ask(question).result()) == 8
