"""Candidates of a network are timed as it launches them, and their records say so."""

import dataclasses
from concurrent.futures import Future
from pathlib import Path

import pytest
from test_scheduler import BIG, SMALL, TEMPLATES, ReplayConfig, seconds

from autoq.devices import Host
from autoq.errors import InputError
from autoq.graph.ir import Graph
from autoq.measure.job import Job, Measurement
from autoq.records import Device, read_records
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.tuner import _overlapped, tune
from autoq.tuning.company import company
from autoq.tuning.options import TuneOptions, comparison_timing, timing
from autoq.tuning.task import ModelWorkload

HOPPER = Target("cuda", "sm_90a", int8_rate=1e15, memory_rate=1e12)
AMPERE = Target("cuda", "sm_80")
DEVICE = Device("NVIDIA H200", "sm_90a")
GRAPH = object.__new__(Graph)


class Gpu:
    """A device on which the fastest kernel by itself lets nothing overlap with it.

    timing: of trials, as a runner has one; asked: those of comparisons; company: among what.
    """

    pipelined = True
    device = DEVICE

    def __init__(self, timing):
        self._timing = timing
        self.asked, self.company = [], None

    def submit(self, job):
        future = Future()
        future.set_result(self._measured(job, self._timing))
        return future

    def surround(self, jobs, seconds=None):
        assert self.company is None and not self.asked
        self.company = list(jobs)

    def compare(self, jobs, timing):
        self.asked.append(timing)
        future = Future()
        future.set_result([self._measured(job, timing) for job in jobs])
        return future

    def _measured(self, job, timing):
        alone = seconds(BIG, vars(job.config))
        assert timing.overlapped == (self.company is not None)
        gained = 0.0 if job.config == ReplayConfig(7, 7, 4) else 0.3 * alone
        return Measurement(alone - gained if timing.overlapped else alone, repeats=9)

    def cancel(self):
        pass

    def close(self):
        pass


def tuned(output, overlapped, workloads=(BIG,)):
    gpu = Gpu(timing(TuneOptions(1, overlapped=overlapped), "cuda"))
    summary = tune(
        workloads, trials=192, output=output, target=Host(HOPPER, DEVICE.name), measurer=gpu,
        overlapped=overlapped, registry="test_scheduler:TEMPLATES", tuner="random", until_gain=0,
    )  # fmt: skip
    assert gpu.asked and all(asked.overlapped == overlapped for asked in gpu.asked)
    return summary, gpu


@pytest.mark.parametrize("overlapped", [False, True])
def test_the_fastest_by_itself_need_not_win_in_a_network(tmp_path, overlapped):
    (row,) = tuned(tmp_path / "log.jsonl", overlapped)[0].rows
    assert (row.config == {"a": 7, "b": 7, "c": 4}) == (not overlapped)
    records = read_records(tmp_path / "log.jsonl").records
    assert len(records) > 192 and {record.overlapped for record in records} == {overlapped}


def test_a_run_passes_over_times_of_the_other_kind(tmp_path):
    tuned(tmp_path / "log.jsonl", overlapped=False)
    before = len(read_records(tmp_path / "log.jsonl").records)
    summary, _ = tuned(tmp_path / "log.jsonl", overlapped=True)
    assert summary.measured == 192
    assert summary.skipped == {"timed from start to end, not where launches overlap": before}


def test_candidates_are_timed_among_the_untuned_kernels_of_the_model(tmp_path):
    _, gpu = tuned(tmp_path / "log.jsonl", True, (BIG, SMALL))
    assert gpu.company == [Job(one, "replay", ReplayConfig(0, 0, 1)) for one in (BIG, SMALL)]


def test_the_layers_that_take_most_time_stand_for_all():
    sizes = [*range(1, 20), *range(40, 20, -1)]
    model = [(ModelWorkload(Gemm(64 * n, 64, 64), 1), TEMPLATES) for n in sizes]
    model[0] = (dataclasses.replace(model[0][0], count=1000), TEMPLATES)
    rows = [job.workload.m // 64 for job in company(model, HOPPER)]
    assert rows == [1, *range(9, 20), *range(40, 20, -1)]


@pytest.mark.parametrize(
    ("model", "target", "asked", "found"),
    [
        ("model.onnx", HOPPER, None, True),
        (Path("model.onnx"), HOPPER, None, True),
        (GRAPH, HOPPER, None, True),
        ([BIG], HOPPER, None, False),
        ([BIG], HOPPER, True, True),
        (GRAPH, HOPPER, False, False),
        (GRAPH, AMPERE, None, False),
        (GRAPH, Target("cpu", "generic"), None, False),
    ],
)
def test_kernels_of_a_model_are_timed_as_it_launches_them(model, target, asked, found):
    assert _overlapped(model, TuneOptions(1, overlapped=asked), target) is found


def test_what_a_device_cannot_do_is_refused():
    with pytest.raises(InputError, match="do not overlap on sm_80"):
        _overlapped(GRAPH, TuneOptions(1, overlapped=True), AMPERE)


def test_a_comparison_is_longer_than_a_trial():
    options = TuneOptions(1, number=7)
    for kind in ("cuda", "cpu"):
        trial, comparison = timing(options, kind), comparison_timing(options, kind)
        assert trial.repeat < comparison.repeat and trial.number == comparison.number == 7
