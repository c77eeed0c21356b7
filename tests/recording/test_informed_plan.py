"""What is recorded where a model of records has its say."""

from __future__ import annotations

from importlib import resources
from itertools import islice

import numpy as np
import pytest

from autoq.devices import resolve
from autoq.errors import AutoqError
from autoq.knowledge.climb import opinion_of, slowness_of
from autoq.knowledge.shipped import FILE, shipped_models
from autoq.measure.job import REGISTRY, load_registry
from autoq.recorder import compile_spaces, record_spaces
from autoq.recording.options import RecordOptions
from autoq.recording.plan import planned
from autoq.records.recorded_space import ESTIMATED, NEIGHBOUR, PREDICTED, UNIFORM
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d

TARGET = resolve("cuda:sm_90a").target
NAMES = "conv2d_halo", "conv2d_mma_sync"
# Of no shape that was ever recorded.
WORKLOAD = Conv2d(8, 22, 22, 96, 160, 3, 3, padding=(1, 1, 1, 1), in_dtype="int8",
                  epilogue=Epilogue("int8"))  # fmt: skip
WANTED = 96


@pytest.fixture(scope="module")
def model():
    (found,) = [one for one in shipped_models() if one.about.device == "NVIDIA H200"]
    return found


@pytest.fixture(scope="module")
def templates():
    return [one for name, one in load_registry(REGISTRY).items() if name in NAMES]


def plan(model, templates, n=WANTED, seed=0):
    return list(islice(planned(WORKLOAD, templates, TARGET, seed, model=model), n))


def test_half_is_what_a_model_expects_to_be_fast(model, templates):
    found = plan(model, templates)
    assert len({one.candidate for one in found}) == WANTED
    assert plan(model, templates, 30) == found[:30]
    drawn = [one.drawn for one in found]
    assert 0.4 < drawn.count(PREDICTED) / WANTED < 0.6
    assert drawn.count(UNIFORM) and drawn.count(ESTIMATED) and drawn.count(NEIGHBOUR)
    for template in templates:
        space = template.space(WORKLOAD, TARGET)
        codes = {
            kind: np.array([
                space.code(one.candidate.config) for one in found
                if one.drawn == kind and one.candidate.template == template.name
            ])
            for kind in (PREDICTED, UNIFORM)
        }  # fmt: skip
        slowness = slowness_of(model, WORKLOAD, template.name, space, TARGET)
        # Nearly all predicted ones are faster, to the model, than nearly all uniform draws.
        assert np.quantile(slowness(codes[PREDICTED]), 0.9) < np.quantile(
            slowness(codes[UNIFORM]), 0.1
        )


def test_members_of_a_model_are_asked_in_turn(model, templates):
    for template in templates:
        space = template.space(WORKLOAD, TARGET)
        codes = space.sample_codes(np.random.default_rng(0), 128)
        about = model, WORKLOAD, template.name, space, TARGET
        features = model.columns.matrix(WORKLOAD, template.name, space, codes, TARGET)
        count = sum(len(part) for part in model.members(features))
        opinions = np.array([opinion_of(*about, at)(codes) for at in range(count)])
        np.testing.assert_allclose(opinions.mean(axis=0), model.predict(features), rtol=1e-6)
        assert len({tuple(np.argsort(one)[:8]) for one in opinions}) > count // 2
        np.testing.assert_array_equal(opinion_of(*about, count + 1)(codes), opinions[1])


def test_a_template_that_a_model_does_not_know_is_drawn_by_chance(model, templates):
    versions = {name: version for name, version in model.about.versions.items()
                if name != NAMES[0]}  # fmt: skip
    found = plan(model.but(versions=versions), templates)
    drawn = {name: {one.drawn for one in found if one.candidate.template == name} for name in NAMES}
    assert PREDICTED not in drawn[NAMES[0]]
    assert PREDICTED in drawn[NAMES[1]]


@pytest.mark.parametrize("other", ["exhaustive", "nearby"])
def test_a_model_has_no_say_in_what_takes_all(tmp_path, other):
    with pytest.raises(AutoqError, match="--knowledge: --exhaustive and --nearby"):
        RecordOptions(knowledge=tmp_path / "model.json", **{other: True})


def test_a_model_draws_for_its_own_architecture_alone(tmp_path):
    shipped = resources.files("autoq.tuning_logs") / "h200" / FILE
    path = tmp_path / "model.json.xz"
    path.write_bytes(shipped.read_bytes())
    options = RecordOptions(knowledge=path, samples=1)
    for record in (record_spaces, compile_spaces):
        with pytest.raises(AutoqError, match=r"a model of NVIDIA H200 \(sm_90a\), and the target"):
            record([WORKLOAD], tmp_path / "spaces", options, "cpu")
    path.write_text("{}")
    with pytest.raises(AutoqError, match="no model of records"):
        compile_spaces([WORKLOAD], tmp_path / "spaces", options, "cuda:sm_90a")
