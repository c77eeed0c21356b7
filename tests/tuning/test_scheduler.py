"""How trials are shared out, on replayed spaces without any device."""

import itertools
import json
from dataclasses import dataclass

import pytest
from replay_measurer import ReplayMeasurer
from trial_records import trials_of

from autoq.errors import InputError, RecordError
from autoq.measure.job import Measurement
from autoq.records import Device, Record, read_records
from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.tuner import tune

DEVICE = Device("Replay", "generic")
TARGET = Target("cpu", "generic", int8_rate=1e12, memory_rate=1e11)


@dataclass(frozen=True)
class ReplayConfig:
    a: int
    b: int
    c: int


def _space(workload, target):
    return Space(ReplayConfig, {"a": tuple(range(8)), "b": tuple(range(8)), "c": (1, 2, 4)})


def _template(name, version=1):
    return Template(
        name,
        version,
        lambda workload, target: isinstance(workload, Gemm),
        _space,
        lambda workload, target: ReplayConfig(0, 0, 1),
        lambda workload, config, target: None,
        lambda workload, config, constants: (),
        lambda workload, config: (),
    )


TEMPLATES = (_template("replay"),)


def seconds(workload, config):
    """A time that improves with every knob, from 4 times the best down to it."""
    best = workload.operations / 0.5e12
    return best * (1 + (7 - config["a"]) / 7 + (7 - config["b"]) / 7 + 1 / config["c"])


def recording(workloads, failing=lambda config: False):
    for workload in workloads:
        for a, b, c in itertools.product(range(8), range(8), (1, 2, 4)):
            config = {"a": a, "b": b, "c": c}
            fails = failing(config)
            yield Record(
                workload, "replay", 1, config, DEVICE, "2026-11-20T12:00:00Z",
                seconds=None if fails else seconds(workload, config),
                failure="runtime" if fails else None,
            )  # fmt: skip


BIG, SMALL = Gemm(1024, 1024, 1024), Gemm(64, 64, 64)


@pytest.fixture
def run(tmp_path):
    def run(workloads, trials, failing=lambda config: False, output="log.jsonl", **options):
        records = recording([w for w, _ in workloads], failing)
        return tune(
            [workload for workload, count in workloads for _ in range(count)],
            trials=trials,
            output=tmp_path / output,
            target=_host(),
            registry=f"{__name__}:TEMPLATES",
            measurer=ReplayMeasurer(records, {"replay": _space}, TARGET),
            **{"until_gain": 0.0, **options},
        )

    return run


def _host():
    from autoq.devices import Host

    return Host(TARGET, DEVICE.name)


@pytest.mark.parametrize("tuner", ["random", "annealing", "diverse", "informed"])
def test_every_tuner_spends_the_trials_without_repeating_any(run, tmp_path, tuner):
    often = BIG.operations // SMALL.operations
    summary = run([(BIG, 1), (SMALL, often)], trials=100, tuner=tuner)
    records = trials_of(tmp_path / "log.jsonl")
    assert len(records) == summary.measured == 100
    assert len({record.identity for record in records}) == 100
    assert summary.reason == "trials"
    for row in summary.rows:
        mine = [r.seconds for r in records if r.workload == row.workload]
        assert row.seconds == min(mine) and row.trials == len(mine) >= 32


def test_the_default_is_measured_first(run, tmp_path):
    run([(BIG, 1)], trials=1)
    (record,) = read_records(tmp_path / "log.jsonl").records
    assert record.config == {"a": 0, "b": 0, "c": 1}


def test_the_task_that_costs_most_gets_most_trials(run):
    summary = run([(BIG, 1), (SMALL, 1)], trials=224)
    big, small = summary.rows
    assert big.trials > 150 and small.trials < 70


def test_a_small_kernel_that_occurs_often_counts_as_often(run):
    often = BIG.operations // SMALL.operations * 10
    summary = run([(BIG, 1), (SMALL, often)], trials=160)
    big, small = summary.rows
    assert small.trials > big.trials


def test_few_trials_reach_every_task(run):
    workloads = [(Gemm(64, 64, 64 * (i + 1)), 1) for i in range(5)]
    assert [row.trials for row in run(workloads, trials=12).rows].count(0) == 0


def test_an_exhausted_space_ends_the_run(run):
    summary = run([(SMALL, 1)], trials=1000)
    assert summary.measured == 192 and summary.reason == "trials"


def test_early_stopping_leaves_a_task_that_no_longer_improves(run):
    summary = run([(SMALL, 1)], trials=192, early_stopping=33, tuner="random", seed=3)
    records_after_best = summary.measured
    assert records_after_best < 192


def test_a_task_never_gets_more_than_its_limit(run):
    summary = run([(BIG, 1), (SMALL, 1)], trials=300, trials_per_task=40)
    assert [row.trials for row in summary.rows] == [40, 40]


def test_resume_counts_old_trials_and_repeats_none(run, tmp_path):
    run([(BIG, 1)], trials=50)
    before = (tmp_path / "log.jsonl").read_text()
    summary = run([(BIG, 1)], trials=80)
    assert summary.measured == 30 and summary.rows[0].trials == 80
    assert (tmp_path / "log.jsonl").read_text().startswith(before)
    assert len({record.identity for record in trials_of(tmp_path / "log.jsonl")}) == 80
    assert run([(BIG, 1)], trials=80).measured == 0


def test_records_of_other_files_are_known_but_not_counted(run, tmp_path):
    run([(BIG, 1)], trials=100, output="old.jsonl")
    old = trials_of(tmp_path / "old.jsonl")
    summary = run([(BIG, 1)], trials=40, tuning_records=[tmp_path / "old.jsonl"])
    new = trials_of(tmp_path / "log.jsonl")
    assert summary.measured == 40
    assert not {r.identity for r in old} & {r.identity for r in new}
    assert summary.rows[0].seconds <= min(r.seconds for r in old)


def test_foreign_records_are_skipped_and_counted(run, tmp_path):
    run([(BIG, 1)], trials=10)
    path = tmp_path / "log.jsonl"
    lines = path.read_text().splitlines()[:10]
    foreign = json.loads(lines[0]) | {"device": "Other"}
    newer = json.loads(lines[1]) | {"template_version": 2}
    odd = json.loads(lines[2]) | {"config": {"a": 99, "b": 0, "c": 1}}
    for fields in (foreign, newer, odd):
        del fields["crc32"]
    path.write_text("\n".join([*lines[3:], *map(json.dumps, (foreign, newer, odd))]) + "\n")
    summary = run([(BIG, 1)], trials=10)
    assert summary.measured == 3
    assert summary.skipped == {
        "of device Other, not Replay": 1,
        "of replay version 2, not 1": 1,
        "of a configuration that is no longer legal": 1,
    }


def test_a_run_of_failures_ends_and_says_so(run):
    summary = run([(BIG, 1), (SMALL, 1)], trials=64, failing=lambda config: True)
    assert summary.failures == {"runtime": 64}
    assert all(row.seconds is None for row in summary.rows)


def test_the_same_seed_measures_the_same(run, tmp_path):
    run([(BIG, 1)], trials=64, output="a.jsonl", seed=5)
    run([(BIG, 1)], trials=64, output="b.jsonl", seed=5)
    a, b = (read_records(tmp_path / name).records for name in ("a.jsonl", "b.jsonl"))
    assert [r.config for r in a] == [r.config for r in b]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"trials": 0}, "--trials 0: at least 1"),
        ({"trials": -3}, "--trials -3"),
        ({"trials": 8, "early_stopping": 0}, "--early-stopping 0"),
        ({"trials": 8, "timeout": 0.0}, "--timeout"),
        ({"trials": 8, "tuner": "magic"}, "--tuner 'magic' is unknown; choose from"),
        ({"trials": 8, "tasks": "7"}, "--tasks '7'"),
        ({"trials": 8, "speed": 7}, "unknown option 'speed'"),
        ({"trials": 8, "jobs": -1}, "--jobs"),
    ],
)
def test_bad_options_are_one_line_and_write_nothing(run, tmp_path, options, says):
    with pytest.raises(InputError, match=says) as caught:
        run([(BIG, 1)], **options)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "log.jsonl").exists()


def test_an_output_that_cannot_be_written_is_found_first(run):
    with pytest.raises(RecordError, match="does not exist"):
        run([(BIG, 1)], trials=8, output="missing/log.jsonl")


def test_a_replay_of_two_devices_is_refused():
    records = list(recording([SMALL]))
    object.__setattr__(records[0], "device", Device("Other", "generic"))
    with pytest.raises(RecordError, match="one device"):
        ReplayMeasurer(records, {"replay": _space}, TARGET)


def test_a_job_that_was_not_recorded_fails(run):
    records = list(recording([SMALL]))[:1]
    measurer = ReplayMeasurer(records, {"replay": _space}, TARGET)
    from autoq.measure.job import Job

    found = measurer.submit(Job(SMALL, "replay", ReplayConfig(7, 7, 4))).result()
    assert found == Measurement(failure="constraints", message="not in the recording")


def test_a_run_ends_where_too_little_is_left_to_gain(run, tmp_path):
    # Of other seeds some find the best so late that they spend all trials.
    full = run([(BIG, 1)], trials=192, seed=5, output="full.jsonl").rows[0]
    summary = run([(BIG, 1)], trials=192, seed=5, until_gain=0.02)
    (row,) = summary.rows
    assert summary.reason == "gain"
    assert 24 < row.trials < 192
    assert row.seconds <= 1.02 * full.seconds


def test_a_run_does_not_end_while_nothing_works(run):
    summary = run([(BIG, 1)], trials=96, until_gain=0.5, failing=lambda config: True)
    assert summary.reason == "trials" and summary.measured == 96


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_that_no_gain_can_be_is_refused(run, share):
    with pytest.raises(InputError, match="--until-gain"):
        run([(BIG, 1)], trials=8, until_gain=share)
