"""Benchmarks of searches, of untuned choices and of compiling, in miniature and without a GPU."""

from __future__ import annotations

import argparse
import json
import sys
from types import SimpleNamespace

import bench_compiling
import bench_knowing_search
import bench_predicted
import bench_search_step
import bench_training
import numpy as np
import pytest
from untuned_choices import Choices, read_choices
from with_nvcc import needs_nvcc

from autoq.devices import resolve
from autoq.knowledge.lessons import shape_of
from autoq.measure.job import Job
from autoq.records.recorded_space import read_space
from autoq.replaying.loading import shipped_spaces
from autoq.search.knobs import plain_config
from autoq.search.union import Candidate
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.registry import matching
from autoq.templates.workload_key import to_dict

SMALL = Conv2d(1, 8, 8, 16, 16, 3, 3, padding=(1, 1, 1, 1), in_dtype="int8",
               epilogue=Epilogue("int8"))  # fmt: skip


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


def records_of(paths, tmp_path):
    """A record file with the fastest trial of each space."""
    from autoq.records.record import Record

    lines = []
    for path in paths:
        space = read_space(path)
        best = min((t for t in space.trials if t.seconds), key=lambda t: t.seconds)
        lines.append(
            Record(space.workload, best.template, best.version, best.config, space.device,
                   space.last, seconds=best.seconds, repeats=3)
        )  # fmt: skip
    source = tmp_path / "network.jsonl"
    source.write_text("".join(f"{line.to_line()}\n" for line in lines))
    return source


def test_choices_leave_shapes_out_and_are_read_again(paths, templates, tmp_path, capsys):
    source, output = records_of(paths, tmp_path), tmp_path / "choices.json"
    options = argparse.Namespace(
        source=source, part="N8", spaces=paths, output=output, left_out=bench_predicted.LEFT_OUT
    )
    with pytest.raises(Exception, match="nothing to learn"):
        bench_predicted.choose(options)  # without both shapes there is no lesson left
    other = next(p for p in shipped_spaces() if "28x28x192-192-g192" in p.name)
    options.spaces = [*paths, other]
    bench_predicted.choose(options)
    target = resolve("cuda:sm_90a").target
    name, found = read_choices(output, templates, target)
    assert name == "network.jsonl"
    assert [one.workload for one in found] == [read_space(path).workload for path in paths]
    for one, path in zip(found, paths, strict=True):
        assert set(one.ways) == set(bench_predicted.WAYS)
        best = min((t for t in read_space(path).trials if t.seconds), key=lambda t: t.seconds)
        space = templates[best.template].space(one.workload, target)
        assert one.ways["record"] == Candidate(best.template, space.from_dict(best.config))
        assert all(value >= 1 for value in one.promised.values())
    options.left_out = bench_predicted.LEFT_OUT[1:]
    bench_predicted.choose(options)
    for one, fewer in zip(found, read_choices(output, templates, target)[1], strict=True):
        assert fewer.ways == {
            way: taken for way, taken in one.ways.items() if way != "shape_left_out"
        }


def test_choices_are_timed_and_summed_up(monkeypatch, templates, tmp_path, in_this_process):
    target = resolve("cpu").target
    template = next(t for t in matching(SMALL, target, list(templates.values())) if t.tunable)
    default = template.default(SMALL, target)
    other = next(c for c in template.space(SMALL, target).enumerate() if c != default)
    ways = {
        "record": Candidate(template.name, other), "default": Candidate(template.name, default),
        "shape_left_out": Candidate(template.name, other),
    }  # fmt: skip
    source, output = tmp_path / "choices.json", tmp_path / "result.json"
    row = Choices(SMALL, template.name, ways, {"shape_left_out": 1.1}).to_json()
    source.write_text(json.dumps({"records": "network.jsonl", "choices": [row]}))
    options = argparse.Namespace(
        source=source, output=output, target="cpu", jobs=1, commit="some commit", compiled=None
    )
    bench_predicted.measure(options)
    data = json.loads(output.read_text())
    (case,) = data["cases"]
    assert (data["records"], data["commit"]) == ("network.jsonl", "some commit")
    # One kernel stands for both ways, so that it is timed once.
    assert case["record_us"] == case["shape_left_out_us"] > 0
    assert case["default_us"] > 0 and case["network_left_out_us"] is None
    assert case["shape_left_out_promised"] == 1.1


def test_recorded_times_stand_for_measured_ones(paths, templates, tmp_path, capsys):
    target = resolve("cuda:sm_90a").target
    recorded = read_space(paths[0])
    worked = [t for t in recorded.trials if t.seconds]
    space = templates[worked[0].template].space(recorded.workload, target)
    of_it = [t for t in worked if t.template == worked[0].template][:2]
    record, default = (Candidate(t.template, space.from_dict(t.config)) for t in of_it)
    unknown = next(
        Candidate(record.template, config) for config in space.enumerate()
        if plain_config(config) not in [dict(t.config) for t in recorded.trials]
    )  # fmt: skip
    rows = []
    for chosen in (record, unknown):
        ways = {"record": record, "default": default, "network_left_out": chosen}
        rows.append(Choices(recorded.workload, record.template, ways, {}).to_json())
    source, output = tmp_path / "choices.json", tmp_path / "result.json"
    source.write_text(json.dumps({"records": "network.jsonl", "choices": rows}))
    bench_predicted.recorded(
        argparse.Namespace(source=source, output=output, spaces=paths[0].parent, commit="some")
    )
    data = json.loads(output.read_text())
    (case,) = data["cases"]
    assert data["newest_space"] == recorded.last
    assert case["record_us"] == case["network_left_out_us"]
    assert case["record_us"] == pytest.approx(of_it[0].seconds * 1e6, abs=1e-3)
    assert case["default_us"] == pytest.approx(of_it[1].seconds * 1e6, abs=1e-3)
    assert "not all is recorded" in capsys.readouterr().out


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


@needs_nvcc
def test_choices_are_compiled_ahead_once(paths, templates, tmp_path, in_this_process):
    target = resolve("cuda:sm_90a").target
    workload = read_space(paths[0]).workload
    template = templates["conv2d_grouped"]
    default = Candidate(template.name, template.default(workload, target))
    ways = {"record": default, "default": default}
    source, kernels = tmp_path / "choices.json", tmp_path / "kernels"
    row = Choices(workload, template.name, ways, {}).to_json()
    source.write_text(json.dumps({"records": "network.jsonl", "choices": [row]}))
    options = argparse.Namespace(source=source, output=kernels, jobs=1)
    for _ in range(2):
        bench_predicted.compile_choices(options)
        ((job, (folder, compiled)),) = bench_predicted.compiled_places(
            kernels, read_choices(source, templates, target)[1]
        ).items()
        assert job == Job(workload, default.template, default.config)
        assert len(folder.compiled) == 1 and compiled.place is not None
