"""A residual product of a dozen kernels is one task: found, resumed and compiled like any other."""

import dataclasses
import os

import numpy as np
import pytest
from simulated import SimulatedClock, SimulatedMeasurer
from trial_records import trials_of

from autoq.compilation.selection import DEFAULT, choose
from autoq.devices import Host
from autoq.measure.job import Job, Measurement
from autoq.records import Database, Device
from autoq.templates import TEMPLATES
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.target import parse_target
from autoq.templates.workload_key import key
from autoq.tuner import tune

TARGET = parse_target("cuda:sm_90a")
HOST = Host(TARGET, "a simulated GPU")
WORKLOAD = ResidualGemm(2048, 2048, 2048)


def seconds(job):
    """Short for deep rings of the product, and for lists with much room."""
    knobs = dataclasses.asdict(job.config)
    return 1e-3 * (2 - knobs["share"] - knobs["stages"] / 100 + knobs["sum_rows"] / 1000)


def tuned(path, trials):
    clock = SimulatedClock()
    measurer = SimulatedMeasurer(
        clock, lambda job: Measurement(seconds(job), repeats=9), seconds, pipelined=True
    )
    measurer.device = Device(HOST.device, TARGET.arch)
    return tune(
        [WORKLOAD], trials=trials, output=path, target=HOST, measurer=measurer, clock=clock,
        tuner="random", until_gain=0,
    )  # fmt: skip


def chosen(workload, path):
    return choose(workload, HOST, Database.load([path], shipped=False), list(TEMPLATES))


def test_a_residual_product_is_one_task_with_the_knobs_of_its_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    path = tmp_path / "log.jsonl"
    (row,) = tuned(path, 24).rows
    assert row.trials == 24 and row.seconds < row.default_seconds
    trials = trials_of(path)
    for knob in ("stages", "share", "sum_rows", "lanes"):
        assert len({str(trial.config.get(knob)) for trial in trials}) > 1, knob
    assert tuned(path, 30).measured == 6 and len(trials_of(path)) == 30
    found = chosen(WORKLOAD, path)
    least = min(trial.seconds for trial in trials_of(path))
    job = Job(WORKLOAD, found.template.name, found.config)
    assert found.source == str(path) and seconds(job) == pytest.approx(least)
    for other in ("none", "full"):
        assert chosen(dataclasses.replace(WORKLOAD, correction=other), path).source == DEFAULT


def test_the_crossover_is_a_constant_of_whoever_multiplies():
    """It decides which values are corrected, so that no tuner may choose it by speed."""
    _, constants = WORKLOAD.random_case(np.random.default_rng(0))
    assert set(constants) == {"threshold", "crossover"} and "crossover" not in key(WORKLOAD)
