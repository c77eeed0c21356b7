"""Untuned choices of models: what is taken, compiled, timed and looked up."""

from __future__ import annotations

import argparse
import json

import bench_predicted
import pytest
from recorded_layers import records_of
from untuned_choices import Choices, read_choices
from with_nvcc import needs_nvcc

from autoq.devices import resolve
from autoq.measure.job import Job
from autoq.records.recorded_space import read_space
from autoq.replaying.loading import shipped_spaces
from autoq.search.knobs import plain_config
from autoq.search.union import Candidate
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.registry import matching

SMALL = Conv2d(1, 8, 8, 16, 16, 3, 3, padding=(1, 1, 1, 1), in_dtype="int8",
               epilogue=Epilogue("int8"))  # fmt: skip


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


def test_a_way_that_some_workloads_lack_leaves_them_to_the_default():
    rows = [
        {"family": "one", "record_us": 2.0, "default_us": 3.0, "halved_us": 2.5},
        {"family": "one", "record_us": 2.0, "default_us": 4.0},
    ]
    found = bench_predicted.summary(rows)["all"]["halved"]
    assert (found["cases"], found["predicted"]) == (2, 1)
    assert (found["mean"], found["worst"]) == (1.625, 2.0)


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
