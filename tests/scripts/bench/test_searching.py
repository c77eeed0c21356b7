"""Benchmarks of searches, of models of records and of compiling, in miniature and without a GPU."""

from __future__ import annotations

import argparse
import json
import sys
from types import SimpleNamespace

import bench_attainable
import bench_compiling
import bench_knowing_search
import bench_knowledge
import bench_search_step
import bench_training
import numpy as np
import pytest
from recorded_layers import layer_paths, records_of
from with_nvcc import needs_nvcc

from autoq.devices import resolve
from autoq.knowledge.lessons import shape_of
from autoq.knowledge.training import gathered, lessons_of
from autoq.measure.job import REGISTRY, load_registry
from autoq.records.recorded_space import read_space
from autoq.replaying.loading import shipped_spaces
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.registry import matching
from autoq.templates.workload_key import to_dict

SMALL = Conv2d(1, 8, 8, 16, 16, 3, 3, padding=(1, 1, 1, 1), in_dtype="int8",
               epilogue=Epilogue("int8"))  # fmt: skip


@pytest.fixture(scope="module")
def templates():
    return load_registry(REGISTRY)


@pytest.fixture(scope="module")
def paths():
    return layer_paths()


@pytest.fixture(scope="module")
def lessons(paths, templates):
    return lessons_of(gathered(paths), templates)


@needs_nvcc
def test_compiling_is_taken_apart(monkeypatch, tmp_path, in_this_process):
    layer = Conv2d(1, 14, 14, 32, 32, 3, 3, padding=(1,) * 4, groups=32, in_dtype="uint8",
                   epilogue=Epilogue("uint8"))  # fmt: skip
    output = tmp_path / "compiling.json"
    arguments = [json.dumps(to_dict(layer)), "-o", str(output), "--samples", "3", "--jobs", "1"]
    monkeypatch.setattr(sys, "argv", ["bench_compiling.py", *arguments])
    bench_compiling.main()
    data = json.loads(output.read_text())
    (row,) = data["templates"]
    # The first of a template is left out: it is the one for which modules are imported.
    assert (row["template"], row["candidates"]) == ("conv2d_grouped", 2)
    stages = ("lower", "generate", "nvcc, its own code")
    assert all(row[name] > 0 for name in stages)
    assert row["wall"] > row["nvcc, its own code"] / 2
    assert row["wall of cicc"] > 0 and row["wall of ptxas"] > 0
    assert (data["rate"]["candidates"], data["rate"]["failed"]) == (3, 0)
    assert data["rate"]["per_second"] == pytest.approx(3 / data["rate"]["seconds"], rel=0.05)


def test_what_is_attainable_is_of_a_half_that_its_own_model_has_not_seen(monkeypatch, lessons):
    taught = []
    train = bench_attainable.trained

    def trained(rest, *others):
        taught.append(rest)
        return train(rest, *others)

    monkeypatch.setattr(bench_attainable, "trained", trained)
    first, second = lessons
    found = bench_attainable.row(first, [second], seeds=1)
    count = len(first.seconds)
    (own,), others = taught
    assert len(own.seconds) == count // 2 and set(own.configs) < set(first.configs)
    assert others == [second]
    speeds = first.seconds.min() / first.seconds
    assert found["configurations"] == count
    assert found["within"] == {str(least): (speeds >= least).sum() for least in (0.97, 0.99)}
    for name in ("of_half_of_its_trials", "without_its_shape"):
        ((after_8, after_32),) = found[name]
        # A half of this space has fewer than 32 configurations.
        assert 0 < after_8 <= after_32 == 1


def test_a_knowing_search_knows_nothing_of_its_own_shape(monkeypatch, paths, lessons, capsys):
    taught = []
    train = bench_knowing_search.trained

    def trained(rest, *others):
        taught.append({lesson.shape for lesson in rest})
        return train(rest, *others)

    monkeypatch.setattr(bench_knowing_search, "trained", trained)
    options = argparse.Namespace(least=20, strategies="informed-knowing,random", seeds=3, trials=16)
    found = bench_knowing_search.compared(paths, lessons, options)
    shapes = [shape_of(read_space(path).workload) for path in paths]
    assert taught == [{shapes[1]}, {shapes[0]}]
    for one in found:
        assert [row.strategy for row in one.rows] == [bench_knowing_search.KNOWING, "random"]
        assert all(row.curves.shape == (3, 16) for row in one.rows)
        assert all((np.diff(row.curves, axis=1) >= 0).all() for row in one.rows)
    assert bench_knowing_search.KNOWING in capsys.readouterr().out
    options.least = 2000
    assert bench_knowing_search.compared(paths, lessons, options) == []


def test_a_search_after_defaults_begins_with_those_of_all_templates(paths, templates):
    found = bench_knowing_search.load(paths[0], templates)
    first = bench_knowing_search.defaults(found, templates)
    assert [one.template for one in first] == ["conv2d_grouped"]
    options = argparse.Namespace(
        least=20, strategies="informed-after-defaults,random", seeds=2, trials=16
    )
    (one,) = bench_knowing_search.compared(paths[:1], [], options)
    after, random = one.rows
    best = min(trial.seconds for trial in found.measured.values() if trial.seconds)
    assert (after.curves[:, 0] == best / found.measured[first[0]].seconds).all()
    assert not (random.curves[:, 0] == after.curves[:, 0]).all()


def test_a_prior_is_remembered_in_any_order():
    asked = []

    def prior(codes):
        asked.append(codes.tolist())
        return codes / 10

    space = SimpleNamespace(enumerate=lambda: iter((30, 10, 20)), code=lambda config: config)
    known = bench_knowing_search.remembered(prior, SimpleNamespace(space=space))
    assert known(np.array([20, 30])).tolist() == [2.0, 3.0]
    assert known(np.array([10])).tolist() == [1.0]
    assert asked == [[10, 20, 30]]


def test_a_search_step_is_timed(templates, paths):
    target = resolve("cuda:sm_90a").target
    workload = read_space(paths[0]).workload
    fitting = [t for t in matching(workload, target, list(templates.values())) if t.tunable]
    row = bench_search_step.template_row(fitting[0], workload, target)
    space = fitting[0].space(workload, target)
    assert row["size"] == space.size
    assert row["codes"] == min(20_000, sum(1 for _ in space.enumerate()))
    assert row["sample_seconds"] > 0 and row["encode_seconds"] > 0
    step = bench_search_step.step_row(fitting, workload, target)
    assert 0 < step["step_seconds"] <= step["longest_seconds"]


def test_columns_can_be_left_out_of_a_lesson(lessons):
    fewer = bench_knowledge.without(lessons[0], ["busiest."])
    left_out = set(lessons[0].columns) - set(fewer.columns)
    assert left_out and all(name.startswith("busiest.") for name in left_out)
    assert not any(name.startswith("busiest.") for name in fewer.columns)
    assert set(bench_knowledge.without(lessons[0], []).columns) == set(lessons[0].columns)


def test_a_thinned_lesson_keeps_its_fastest_and_its_default(lessons):
    thin = bench_training.thinned(lessons[0], 4)
    assert bench_training.thinned(lessons[0], len(lessons[0].seconds)) is lessons[0]
    assert len(thin.seconds) < len(lessons[0].seconds)
    assert thin.seconds.min() == lessons[0].seconds.min()
    assert thin.drawn.count("default") == lessons[0].drawn.count("default") == 1
    full = dict(zip(lessons[0].configs, lessons[0].seconds, strict=True))
    assert [full[one] for one in thin.configs] == thin.seconds.tolist()
    assert all(len(column) == len(thin.seconds) for column in thin.columns.values())


def test_what_teaches_is_compared(monkeypatch, paths, tmp_path):
    other = next(p for p in shipped_spaces() if "28x28x192-192-g192" in p.name)
    monkeypatch.setattr(bench_training, "shipped_spaces", lambda: [*paths, other])
    monkeypatch.setattr(bench_training, "shipped_records", lambda: [records_of(paths, tmp_path)])
    output = tmp_path / "training.json"
    arguments = ["--folds", "2", "--seeds", "1", "-o", str(output)]
    monkeypatch.setattr(sys, "argv", ["bench_training.py", *arguments])
    bench_training.main()
    data = json.loads(output.read_text())
    # A workload of a single record teaches nothing.
    assert (data["spaces"], data["records"]) == (3, 0)
    assert set(data["variants"]) == set(bench_training.VARIANTS)
    for rows in data["variants"].values():
        assert rows["all"]["spaces"] == rows["conv2d_grouped"]["spaces"] == 3
        assert 1 <= rows["all"]["default"]["mean"] <= rows["all"]["default"]["worst"]


def test_defaults_stand_beside_first_predictions(lessons, templates):
    found = bench_knowledge.leave_one_out(lessons, templates, 2)
    data = bench_knowledge.result(found, 2, 0)
    shared = bench_knowledge.leave_one_out(lessons, templates, 2, jobs=2)
    assert bench_knowledge.result(shared, 2, 0) == data
    assert [row["family"] for row in data["cases"]] == ["conv2d_grouped"] * 2
    for row in data["cases"]:
        # Both lists begin with the same, and the spread one is another list.
        assert row["spread_median"][0] == row["median"][0]
        assert (np.diff(row["spread_median"]) >= 0).all()
        # The search begins with the default.
        first = round(1 / row["default_over_best"], 4)
        assert row["adaptive_median"][0] == pytest.approx(first, abs=2e-4)
        assert (np.diff(row["adaptive_median"]) >= 0).all()
    for name in (
        "spaces_that_reach", "spaces_that_a_spread_list_reaches", "spaces_that_a_search_reaches",
    ):  # fmt: skip
        assert data[name]["both"] <= min(data[name]["8"], data[name]["32"])
    assert set(data["untuned"]) == {"all", "conv2d_grouped"}
    defaults = [row["default_over_best"] for row in data["cases"]]
    firsts = [one for row in data["cases"] for one in row["predicted_over_best"]]
    found_row = data["untuned"]["all"]
    assert found_row["spaces"] == 2
    assert found_row["default"]["mean"] == pytest.approx(np.mean(defaults), abs=1e-4)
    assert found_row["predicted"]["worst"] == max(firsts)
    assert all(one >= 1 for row in data["cases"] for one in row["promised"])
    kept = [
        row["default_over_best"] if promise < 1.05 else first
        for row in data["cases"]
        for first, promise in zip(row["predicted_over_best"], row["promised"], strict=True)
    ]
    assert found_row["promised 1.05"]["mean"] == pytest.approx(np.mean(kept), abs=1e-4)
