"""Time budgets: kept, used, and enough for comparisons, on a simulated device."""

import dataclasses
import math
import os

import numpy as np
import pytest
from simulated import SimulatedClock, SimulatedMeasurer
from test_scheduler import DEVICE, TARGET, TEMPLATES, ReplayConfig, seconds
from trial_records import trials_of

from autoq.devices import Host
from autoq.measure.job import Measurement
from autoq.records import Database, lookup, read_records
from autoq.report.events import TuneSummary
from autoq.templates.operators.gemm import Gemm
from autoq.tuner import tune

WORKLOADS = [Gemm(64 * (1 + i % 7), 64 * (1 + i % 5), 64 * (1 + i)) for i in range(31)]
DEFAULT = ReplayConfig(0, 0, 1)


def true_seconds(job):
    return seconds(job.workload, dataclasses.asdict(job.config))


@pytest.fixture
def simulate(tmp_path, monkeypatch):
    """Tunes WORKLOADS in simulated time: the summary, what was spent, the measurer."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)

    def simulate(budget, start_up=2.0, workloads=WORKLOADS, trials=100_000, true=true_seconds,
                 measured=None, **device):  # fmt: skip
        clock = SimulatedClock()
        started = clock.now()
        clock.spend(start_up)
        alone = measured or (lambda job: Measurement(true(job), repeats=9))
        measurer = SimulatedMeasurer(clock, alone, true, **device)
        summary = tune(
            workloads,
            trials=trials,
            output=tmp_path / "log.jsonl",
            target=Host(TARGET, DEVICE.name),
            registry="test_scheduler:TEMPLATES",
            measurer=measurer,
            clock=clock,
            started=started,
            time_budget=budget,
            tuner="random",
            until_gain=0,
        )
        assert isinstance(summary, TuneSummary)
        assert summary.elapsed_seconds == clock.now() - started
        return summary, clock.now() - started, measurer

    return simulate


@pytest.mark.parametrize("pipelined", [False, True], ids=["CPU", "GPU"])
@pytest.mark.parametrize("budget", [10.0, 30.0, 100.0])
def test_a_budget_is_kept_and_used(simulate, budget, pipelined):
    summary, spent, _ = simulate(budget, pipelined=pipelined)
    assert 0.9 * budget <= spent <= budget
    assert summary.reason == "time"
    assert all(row.trials >= 1 for row in summary.rows)
    assert not any(row.unsettled for row in summary.rows)


@pytest.mark.parametrize("pipelined", [False, True], ids=["CPU", "GPU"])
def test_trials_that_vary_and_compilers_that_hang_do_not_overrun_it(simulate, pipelined):
    rng = np.random.default_rng(0)

    def build_seconds(job):
        hangs = rng.random() < (0.02 if pipelined else 0.003)
        return 60.0 if hangs else float(rng.lognormal(math.log(0.2), 0.7))

    summary, spent, _ = simulate(40.0, build_seconds=build_seconds, pipelined=pipelined)
    assert 36 <= spent <= 40 and summary.measured > 31
    assert not any(row.unsettled for row in summary.rows)


def test_what_is_left_of_a_short_budget_goes_to_the_largest_tasks(simulate):
    summary, spent, _ = simulate(6.0, run_seconds=0.3)
    tried = [row for row in summary.rows if row.trials]
    untried = [row for row in summary.rows if not row.trials]
    assert tried and untried and spent <= 6.0
    least = min(row.workload.operations for row in tried)
    assert all(row.workload.operations <= least for row in untried)


def test_a_budget_that_start_up_has_eaten_measures_nothing(simulate):
    summary, spent, measurer = simulate(10.0, start_up=9.9)
    assert summary.measured == 0 and not measurer.submitted and spent < 10.1


def test_all_defaults_come_before_anything_else(simulate):
    _, _, measurer = simulate(60.0)
    jobs = [job for _, job in measurer.submitted]
    assert [job.config for job in jobs[:31]] == [DEFAULT] * 31
    assert len({job.workload for job in jobs[:31]}) == 31 and len(jobs) > 62


def test_a_run_without_a_budget_compares_at_its_end(simulate):
    summary, _, measurer = simulate(None, trials=93)
    assert summary.reason == "trials" and summary.measured == 93
    assert measurer.compared and not any(row.unsettled for row in summary.rows)


def test_a_task_with_many_trials_is_compared_before_the_end(simulate):
    _, _, measurer = simulate(None, trials=190, workloads=WORKLOADS[30:])
    times = [time for time, _ in measurer.compared]
    assert len(times) >= 2 and times[0] < measurer.submitted[-1][0]


def chosen(path, workload):
    """The configuration that `compile` takes."""
    choice = lookup(Database.load([path]), workload, TARGET, TEMPLATES, DEVICE.name)
    return choice.config


def test_a_lucky_time_does_not_displace_the_default(simulate, tmp_path):
    """Every other candidate is half as fast as the default, and three times as fast by luck."""

    def slower(job):
        best = true_seconds(dataclasses.replace(job, config=DEFAULT))
        return best if job.config == DEFAULT else 2 * best

    def lucky(job):
        return Measurement(slower(job) * (1 if job.config == DEFAULT else 1 / 6), repeats=9)

    summary, _, measurer = simulate(
        None, trials=60, workloads=WORKLOADS[28:], true=slower, measured=lucky
    )
    assert len(measurer.compared) == 3
    for row in summary.rows:
        assert row.untuned and row.seconds == row.default_seconds
        assert chosen(tmp_path / "log.jsonl", row.workload) == DEFAULT


def test_a_winner_of_the_comparison_is_chosen_and_said_to_be_faster(simulate, tmp_path):
    summary, _, measurer = simulate(None, trials=60, workloads=WORKLOADS[28:])
    for row in summary.rows:
        assert not row.untuned and row.seconds < row.default_seconds
        assert vars(chosen(tmp_path / "log.jsonl", row.workload)) == row.config
    records = read_records(tmp_path / "log.jsonl").records
    confirmed = [record for record in records if record.confirmed]
    for _, jobs in measurer.compared:
        assert DEFAULT in [job.config for job in jobs]
    assert len(confirmed) == sum(len(jobs) for _, jobs in measurer.compared)
    assert summary.total_seconds < summary.untuned_seconds


def test_a_resumed_run_compares_only_what_is_new(simulate, tmp_path):
    simulate(None, trials=60, workloads=WORKLOADS[28:])
    _, _, again = simulate(None, trials=60, workloads=WORKLOADS[28:])
    assert not again.submitted and not again.compared
    summary, _, more = simulate(None, trials=90, workloads=WORKLOADS[28:])
    assert len(more.submitted) == 30 and more.compared
    assert sum(row.trials for row in summary.rows) == len(trials_of(tmp_path / "log.jsonl")) == 90


def test_records_of_an_interrupted_run_are_compared_by_the_next(simulate, tmp_path):
    simulate(None, trials=60, workloads=WORKLOADS[28:])
    path = tmp_path / "log.jsonl"
    alone = [line for line in path.read_text().splitlines() if '"confirmed"' not in line]
    path.write_text("\n".join(alone) + "\n")
    summary, _, measurer = simulate(None, trials=60, workloads=WORKLOADS[28:])
    assert not measurer.submitted and len(measurer.compared) == 3
    assert not any(row.unsettled for row in summary.rows)


def test_a_candidate_that_brings_its_comparison_down_is_not_chosen(simulate, tmp_path):
    def breaks(job):
        return job.config != DEFAULT

    summary, _, measurer = simulate(None, trials=60, workloads=WORKLOADS[28:], breaks=breaks)
    assert len(measurer.compared) == 6
    for row in summary.rows:
        assert row.untuned and not row.unsettled
        assert chosen(tmp_path / "log.jsonl", row.workload) == DEFAULT
