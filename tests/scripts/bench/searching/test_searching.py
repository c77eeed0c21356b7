"""Benchmarks of searches and of compiling, in miniature and without a GPU."""

from __future__ import annotations

import argparse
import json
import sys
from types import SimpleNamespace

import bench_compiling
import bench_knowing_search
import bench_search_step
import numpy as np
import pytest
from with_nvcc import needs_nvcc

from autoq.devices import resolve
from autoq.knowledge.lessons import shape_of
from autoq.records.recorded_space import read_space
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
    names = ["informed-knowing", "listed-knowing", "random"]
    options = argparse.Namespace(least=20, strategies=",".join(names), seeds=3, trials=16)
    found = bench_knowing_search.compared(paths, lessons, options)
    shapes = [shape_of(read_space(path).workload) for path in paths]
    assert taught == [{shapes[1]}, {shapes[0]}]
    for one in found:
        assert [row.strategy for row in one.rows] == names
        assert all(row.curves.shape == (3, 16) for row in one.rows)
        assert all((np.diff(row.curves, axis=1) >= 0).all() for row in one.rows)
        # A list asks nothing of chance where all of a space is looked at.
        assert (one.rows[1].curves == one.rows[1].curves[0]).all()
    assert "informed-knowing" in capsys.readouterr().out
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
