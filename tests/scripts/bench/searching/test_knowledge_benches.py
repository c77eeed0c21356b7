"""Benchmarks of models of records, in miniature and without a GPU."""

from __future__ import annotations

import bench_attainable
import bench_knowledge
import numpy as np
import pytest

from autoq.knowledge.evaluation import Groups


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


def test_columns_can_be_left_out_of_a_lesson(lessons):
    fewer = bench_knowledge.without(lessons[0], ["busiest."])
    left_out = set(lessons[0].columns) - set(fewer.columns)
    assert left_out and all(name.startswith("busiest.") for name in left_out)
    assert not any(name.startswith("busiest.") for name in fewer.columns)
    assert set(bench_knowledge.without(lessons[0], []).columns) == set(lessons[0].columns)


def test_any_number_of_processes_gives_the_same(lessons, templates):
    found = bench_knowledge.leave_one_out(lessons, templates, 3, groups=Groups(models=2))
    shared = bench_knowledge.leave_one_out(lessons, templates, 3, jobs=2, groups=Groups(models=2))
    assert bench_knowledge.result(shared, 3, 0) == bench_knowledge.result(found, 3, 0)
    assert all(one.shares.shape[0] == len(one.choices) == 3 for one in found)


def test_only_workloads_of_some_names_are_ranked(lessons, templates):
    name = str(lessons[0].workload)
    found = bench_knowledge.leave_one_out(lessons, templates, 1, part=name)
    assert [str(one.lesson.workload) for one in found] == [name]
    assert bench_knowledge.leave_one_out(lessons, templates, 1, part="no such workload") == []


def test_defaults_stand_beside_first_predictions(lessons, templates):
    found = bench_knowledge.leave_one_out(lessons, templates, 2, groups=Groups(models=1))
    data = bench_knowledge.result(found, 2, 0)
    assert [row["family"] for row in data["cases"]] == ["conv2d_grouped"] * 2
    for row in data["cases"]:
        # The search begins with the default.
        first = round(1 / row["default_over_best"], 4)
        assert row["adaptive_median"][0] == pytest.approx(first, abs=2e-4)
        assert (np.diff(row["adaptive_median"]) >= 0).all()
    for name in (
        "spaces_that_reach",
        "spaces_that_the_model_alone_reaches",
        "spaces_that_a_search_reaches",
    ):
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


def test_more_models_than_seeds_are_as_many_as_seeds(lessons, templates):
    name = str(lessons[0].workload)
    models = Groups(models=3)
    (one,) = bench_knowledge.leave_one_out(lessons, templates, 1, groups=models, part=name)
    assert len(one.shares) == 1
