"""Which configurations of a recorded space are measured again, and what becomes of their times."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice

import pytest
from contenders import contenders, main

from autoq.devices import resolve
from autoq.measure.job import REGISTRY, load_registry
from autoq.recording.bundle import BundleFolder
from autoq.recording.naming import file_name
from autoq.recording.plan import planned
from autoq.records.record import Device
from autoq.records.recorded_space import (
    SUFFIX,
    RecordedWorkload,
    SpaceTrial,
    read_space,
    write_space,
)
from autoq.search.knobs import plain_config
from autoq.templates.operators.gemm import Gemm
from autoq.tuning.prepare import ModelWorkload, tunable

WORKLOAD = Gemm(m=64, n=64, k=64)
TARGET = resolve("cpu").target
FIRST = "2026-01-01T00:00:00Z"
SECONDS = (3e-6, 1.05e-6, None, 1e-6, 1.2e-6)


@pytest.fixture(scope="module")
def templates():
    return load_registry(REGISTRY)


@pytest.fixture(scope="module")
def space(templates):
    """Five configurations of a product: four times and a failure."""
    ((_, matching),) = tunable([ModelWorkload(WORKLOAD, 1)], list(templates.values()), TARGET)
    plan = islice(planned(WORKLOAD, matching, TARGET, seed=0), len(SECONDS))
    trials = [
        SpaceTrial(
            one.candidate.template, templates[one.candidate.template].version,
            plain_config(one.candidate.config), seconds,
            None if seconds else "runtime", one.drawn,
        )
        for one, seconds in zip(plan, SECONDS, strict=True)
    ]  # fmt: skip
    device = Device("a CPU", TARGET.arch)
    return RecordedWorkload(WORKLOAD, device, tuple(trials), FIRST, FIRST)


def chosen(space, templates, within):
    found = contenders(space, templates, TARGET, within)
    return [plain_config(one.candidate.config) for one in found]


def test_what_is_near_the_best_is_measured_again(space, templates):
    configs = [dict(trial.config) for trial in space.trials]
    assert chosen(space, templates, 1.1) == [configs[1], configs[3]]
    assert chosen(space, templates, 1.25) == [configs[1], configs[3], configs[4]]


def test_trials_of_other_versions_are_left_alone(space, templates):
    best = space.trials[3]
    old = replace(best, version=best.version - 1)
    both = replace(space, trials=(*space.trials, old))
    assert chosen(both, templates, 1.01) == [dict(best.config)]


def test_new_times_take_the_place_of_old_ones(space, tmp_path):
    shipped, again = (tmp_path / name for name in ("shipped", "again"))
    name = file_name(WORKLOAD) + SUFFIX
    for folder in (shipped, again):
        folder.mkdir()
    write_space(shipped / name, space)
    slower = replace(space.trials[3], seconds=2e-6)
    later = "2026-02-01T00:00:00Z"
    write_space(again / name, replace(space, trials=(slower,), first=later, last=later))
    result = tmp_path / "contenders.json"
    main(["compare", str(again), str(shipped / name), "-o", str(result)])
    (case,) = json.loads(result.read_text())["cases"]
    assert (case["before_us"], case["again_us"], case["again_over_before"]) == ([1.0], [2.0], 2.0)
    main(["join", str(again), str(shipped / name)])
    joined = read_space(shipped / name)
    assert len(joined.trials) == len(space.trials)
    assert joined.best_seconds == pytest.approx(1.05e-6)
    assert (joined.first, joined.last) == (space.first, later)


def test_their_kernels_are_written(space, tmp_path):
    name = file_name(WORKLOAD)
    write_space(tmp_path / (name + SUFFIX), space)
    kernels = tmp_path / "kernels"
    main(["compile", str(tmp_path / (name + SUFFIX)), "--within", "1.01", "--target", "cpu",
          "--jobs", "1", "-o", str(kernels)])  # fmt: skip
    (one,) = BundleFolder(kernels / name).compiled
    assert one.config == space.trials[3].config and one.place is not None
