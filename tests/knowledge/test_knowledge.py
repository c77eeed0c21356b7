"""A model of records: made of shipped spaces, kept in a file, and asked for other workloads."""

from __future__ import annotations

import dataclasses
import json
import zlib

import numpy as np
import pytest

from autoq.compilation.selection import DEFAULT, PREDICTED, choose
from autoq.devices import Host, resolve
from autoq.errors import RecordError
from autoq.knowledge import evaluation
from autoq.knowledge.choice import Prediction, predicted, usable, worthwhile
from autoq.knowledge.evaluation import Groups, leave_one_out
from autoq.knowledge.features import workload_features
from autoq.knowledge.lessons import kind_of, lesson, shape_of
from autoq.knowledge.model import LEAST_PROMISE, load_model, parse_model
from autoq.knowledge.training import gathered, lessons_of, model_of
from autoq.records.database import Database
from autoq.records.recorded_space import read_space
from autoq.replaying.loading import target_of
from autoq.search.knobs import plain_config
from autoq.search.union import Candidate
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.shared.shared_gemm import SharedGemm
from autoq.templates.registry import matching
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure


@pytest.fixture(scope="module")
def model(spaces, templates):
    return model_of(spaces, templates)


@pytest.fixture(scope="module")
def lessons(spaces, templates):
    return lessons_of(gathered(spaces), templates)


@pytest.fixture(scope="module")
def ranked(lessons, templates):
    """Every lesson by a model of the others' shapes."""
    return leave_one_out(lessons, templates, seeds=1)


@pytest.fixture(scope="module")
def workload(spaces):
    return read_space(spaces[0]).workload


def test_features_of_workloads_have_the_names_of_their_fields(workload):
    target = resolve("cuda:sm_90a").target
    found = workload_features(workload, target)
    assert found["workload.h"] == workload.h and found["operator=conv2d"] == 1
    assert found[f"workload.in_dtype={workload.in_dtype}"] == 1
    product = workload_features(Gemm(64, 64, 64), target)
    shared = {name for name in found if name.startswith("workload.log2")}
    assert shared == {name for name in product if name.startswith("workload.log2")}


def test_a_shape_is_the_same_for_every_batch_and_number_of_rows(workload):
    assert shape_of(workload) == shape_of(dataclasses.replace(workload, n=2 * workload.n))
    assert shape_of(workload) != shape_of(dataclasses.replace(workload, k=2 * workload.k))
    assert shape_of(Gemm(64, 32, 16)) == shape_of(Gemm(128, 32, 16, in_dtype="uint8"))
    assert shape_of(SharedGemm(3, 64, 32, 16)) == shape_of(SharedGemm(2, 128, 32, 16))
    assert shape_of(SharedGemm(3, 64, 32, 16)) != shape_of(SharedGemm(3, 64, 16, 16))


def test_a_model_is_the_same_again_and_survives_its_file(model, spaces, templates, tmp_path):
    path = tmp_path / "model.json"
    assert model.save(path) == path.stat().st_size < 2 << 20
    assert "learner" in json.loads(path.read_text())
    packed = tmp_path / "model.json.xz"
    assert model.save(packed) == packed.stat().st_size < path.stat().st_size / 4
    found = load_model(packed)
    packed.write_bytes(packed.read_bytes()[:-100])
    with pytest.raises(RecordError, match=r"model\.json\.xz: no model of records"):
        load_model(packed)
    recorded = read_space(spaces[0])
    features = lesson(recorded, templates, target_of(recorded)).matrix(found.columns)
    np.testing.assert_array_equal(found.predict(features), model.predict(features))
    assert found.about.trials == model.about.trials
    assert found.about.device == "NVIDIA H200"
    again = model_of(spaces, templates)
    np.testing.assert_array_equal(again.predict(features), model.predict(features))


def test_what_is_no_model_is_refused(tmp_path):
    for data in (b"", b"{}", b'{"learner": {}}', b"\xff\x00"):
        with pytest.raises(RecordError, match="no model of records"):
            parse_model("x", data)
    with pytest.raises(RecordError, match="cannot be read"):
        load_model(tmp_path / "missing")
    with pytest.raises(RecordError, match="/dev/zero: cannot be read: is no ordinary file"):
        load_model("/dev/zero")


def test_predictions_are_legal_distinct_and_sorted(model, workload, templates):
    target = resolve("cuda:sm_90a").target
    other = dataclasses.replace(workload, h=20, w=20)
    matches = [t for t in matching(other, target, list(templates.values())) if t.tunable]
    found = predicted(model, other, matches, target)
    assert len(found) > 3
    for one in found:
        assert one.template.space(other, target).legal(one.config)
    assert len({(one.template.name, one.config) for one in found}) == len(found)
    assert [one.slowness for one in found] == sorted(one.slowness for one in found)


def test_a_choice_is_among_the_fastest_configurations_by_the_model(model, workload, templates):
    target = resolve("cuda:sm_90a").target
    other = dataclasses.replace(workload, h=20, w=20)
    matches = [t for t in matching(other, target, list(templates.values())) if t.tunable]
    best = predicted(model, other, matches, target)[0]
    space = best.template.space(other, target)
    codes = space.sample_codes(np.random.default_rng(7), 512)
    features = model.columns.matrix(other, best.template.name, space, codes, target)
    assert best.slowness < np.quantile(model.doubted(features)[1], 0.01)


def test_a_configuration_that_failed_is_never_predicted(model, workload, templates):
    target = resolve("cuda:sm_90a").target
    matches = [t for t in matching(workload, target, list(templates.values())) if t.tunable]
    best = predicted(model, workload, matches, target)[0]
    name, values = best.template.name, plain_config(best.config)
    warned = model.but(failed=[(name, values)])
    assert best.config not in [one.config for one in predicted(warned, workload, matches, target)]


def test_nothing_is_chosen_for_weights_of_a_pattern_that_no_record_has(model, workload, templates):
    tiled = workload.with_sparsity(Sparsity("tw", 64, 64, Structure(96, 32, 64)))
    assert (kind_of(workload), kind_of(tiled)) == ("conv2d", "conv2d tw")
    assert model.about.kinds == ["conv2d"]
    known = model.about.versions
    name, version = next(iter(known.items()))
    assert model.least_promise(workload, name, version) is not None
    assert model.least_promise(tiled, name, version) is None
    anything = model.but(kinds=None)
    assert anything.least_promise(tiled, name, version) is not None


def test_models_are_of_one_device(model):
    assert usable([model], "sm_90a", "NVIDIA H200") is model
    assert usable([model], "sm_90a", None) is model
    assert usable([model], "sm_90a", "NVIDIA H100") is None
    assert usable([model], "sm_80", None) is None


def test_a_layer_without_a_record_takes_the_prediction(model, workload, templates):
    listed = list(templates.values())
    other = dataclasses.replace(workload, h=20, w=20)
    host = Host(resolve("cuda:sm_90a").target, "NVIDIA H200")
    preferred = matching(other, host.target, listed)[0].name
    model = model.but(decides={preferred: 1.0})
    chosen = choose(other, host, Database(()), listed, [model])
    assert chosen.source == PREDICTED
    assert chosen.template.space(other, host.target).legal(chosen.config)
    assert choose(other, host, Database(()), listed).source == DEFAULT
    elsewhere = dataclasses.replace(host, device="NVIDIA H100")
    assert choose(other, elsewhere, Database(()), listed, [model]).source == DEFAULT


def test_a_configuration_counts_once_with_its_later_time(spaces, templates):
    recorded = read_space(spaces[0])
    before = lesson(recorded, templates, target_of(recorded))
    first = next(trial for trial in recorded.trials if trial.seconds)
    again = dataclasses.replace(first, seconds=3 * first.seconds)
    recorded = dataclasses.replace(recorded, trials=(*recorded.trials, again))
    after = lesson(recorded, templates, target_of(recorded))
    assert after.configs == before.configs
    (changed,) = np.flatnonzero(after.seconds != before.seconds)
    assert after.seconds[changed] == 3 * before.seconds[changed] == again.seconds


def test_groups_of_shapes_are_left_out_together(lessons, templates, monkeypatch):
    class Known(Exception):
        """What a model was to learn from is known."""

    def trained(rest, *others):
        raise Known({one.shape for one in rest})

    monkeypatch.setattr(evaluation, "trained", trained)
    shapes = {one.shape for one in lessons}
    for folds in (1, 2, 3):
        with pytest.raises(Known) as found:
            leave_one_out(lessons, templates, seeds=1, groups=Groups(folds))
        (learnt,) = found.value.args
        fold = {shape: zlib.crc32(shape.encode()) % folds for shape in shapes}
        assert learnt == {one for one in shapes if fold[one] != fold[lessons[0].shape]}


def test_one_group_of_all_leaves_nothing_to_learn_from(lessons, templates):
    with pytest.raises(RecordError, match="nothing to learn from"):
        leave_one_out(lessons, templates, seeds=1, groups=Groups(1))


def test_other_shapes_carry_over(lessons, ranked):
    """Stages of a network that the model has not seen: eight measurements, seeded."""
    assert len({one.shape for one in lessons}) > 1
    for left in ranked:
        assert left.shares.shape == (1, 6)
        assert (np.diff(left.shares[0]) >= 0).all()
        assert left.shares[0][3] > 0.9
        # A doubted choice need not be the first of the order, but is one of the recorded.
        assert 1 <= left.choices[0, 0] < 2
        # A searched space need not hold the default, of which a model cannot promise anything then.
        assert (left.default is None) == np.isnan(left.choices[0, 1])


def test_a_choice_that_promises_little_is_left_to_the_default(model, workload, templates):
    target = resolve("cuda:sm_90a").target
    matches = [t for t in matching(workload, target, list(templates.values())) if t.tunable]
    preferred, default = matches[0], matches[0].default(workload, target)
    over = Candidate(preferred.name, default)
    least = model.least_promise(workload, preferred.name, preferred.version)
    assert least == pytest.approx(np.log(LEAST_PROMISE))
    assert model.least_promise(workload, preferred.name, preferred.version + 1) is None
    found = [Prediction(preferred, None, 0.10), Prediction(preferred, default, 0.11 + least)]
    assert worthwhile(found, over, least) is found[0]
    found[1] = Prediction(preferred, default, 0.09 + least)
    assert worthwhile(found, over, least) is None
    assert worthwhile(found[:1], over, least) is None
