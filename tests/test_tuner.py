"""Tuning on this host's CPU with real processes: convolutions, kills, interrupts, listing."""

import dataclasses
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from trial_records import trials_of
from without_processes import without_processes

from autoq.errors import EnvironmentFault, InputError, TargetError
from autoq.records import read_records
from autoq.report.events import TrialsMeasured, TuneStarted, TuneSummary
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.tuner import list_tasks, tune
from autoq.tuning.clock import MonotonicClock

FAKES = str(Path(__file__).parent / "measure")
CONV = Conv2d(1, 14, 14, 32, 32, 3, 3, padding=(1, 1, 1, 1))
FAKE = Gemm(16, 24, 32, epilogue=Epilogue(out_dtype="int32"))


@pytest.fixture(autouse=True)
def fakes_importable(monkeypatch):
    monkeypatch.syspath_prepend(FAKES)


def test_a_convolution_is_tuned_for_this_cpu(tmp_path):
    events = []
    path = tmp_path / "log.jsonl"
    summary = tune(
        [CONV, CONV],
        trials=6,
        output=path,
        target="cpu",
        tuner="random",
        jobs=2,
        on_event=events.append,
    )
    records = trials_of(path)
    assert len(records) == summary.measured == 6
    assert not summary.failures, [record.message for record in records]
    compared = [record for record in read_records(path).records if record.confirmed]
    assert summary.rows[0].seconds == min(record.seconds for record in compared or records)
    assert isinstance(events[0], TuneStarted) and events[-1] is summary
    progress = [event for event in events if isinstance(event, TrialsMeasured)]
    assert progress[-1].done == 6 and progress[-1].seconds_left == 0
    (row,) = list_tasks([CONV, CONV], target="cpu", tuning_records=[path])
    assert row.seconds == summary.rows[0].seconds and row.source == str(path)
    assert row.trials == 6 and row.count == 2


@pytest.mark.usefixtures("in_this_process")
def test_products_of_every_kind_are_tuned_without_a_model(tmp_path):
    workloads = [
        Gemm(16, 24, 32, in_dtype="uint8"),
        FloatGemm(16, 24, 32, weight_dtype="int4", group=32),
        BatchedGemm(1, 32, 32, 64, 2, "uint8", "uint8"),
    ]
    path = tmp_path / "log.jsonl"
    summary = tune(workloads, trials=6, trials_per_task=2, output=path, target="cpu", jobs=1)
    assert not summary.failures
    assert {row.workload for row in summary.rows if row.seconds} == set(workloads)


@pytest.mark.usefixtures("in_this_process")
def test_failing_candidates_become_records_and_tuning_goes_on(tmp_path):
    summary = tune(
        [FAKE],
        trials=24,
        output=tmp_path / "log.jsonl",
        target="cpu",
        tuner="random",
        registry="fake_templates:SHADY",
    )
    records = trials_of(tmp_path / "log.jsonl")
    assert len(records) == 24 == len({record.identity for record in records})
    for record in records:
        expected = {"right": None, "wrong": "correctness", "build_error": "compile"}
        assert record.failure == expected[record.config["behaviour"]]
    assert set(summary.failures) == {"compile", "correctness"}


def test_a_cache_that_cannot_be_used_is_said_once_and_poisons_no_record(tmp_path, caplog):
    (tmp_path / "cache").touch()
    with caplog.at_level(logging.WARNING, "autoq"):
        summary = tune(
            [FAKE],
            trials=6,
            output=tmp_path / "log.jsonl",
            target="cpu",
            tuner="random",
            registry="fake_templates:GOOD_ONLY",
            cache_dir=tmp_path / "cache",
            jobs=1,
        )
    assert summary.measured == 6 and not summary.failures
    assert len(trials_of(tmp_path / "log.jsonl")) == 6
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/cache: the cache cannot be used (Not a directory); going on without it"
    ]


def test_a_cache_that_others_may_write_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(InputError, match="others may write"):
        tune(
            [FAKE],
            trials=6,
            output=tmp_path / "log.jsonl",
            target="cpu",
            registry="fake_templates:GOOD_ONLY",
            cache_dir=tmp_path / "cache",
        )
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


@pytest.mark.usefixtures("in_this_process")
def test_a_fault_of_the_machine_ends_the_run_with_all_trials_kept(tmp_path):
    path = tmp_path / "log.jsonl"
    with pytest.raises(EnvironmentFault, match="No space left"):
        tune(
            [FAKE, dataclasses.replace(FAKE, k=16)],
            trials=1000,
            output=path,
            target="cpu",
            tuner="random",
            registry="fake_templates:FULL_DISK",
            jobs=1,
        )
    records = read_records(path).records
    assert records and not [record for record in records if record.failure]


SCRIPT = """
    import sys
    sys.path.insert(0, {fakes!r})
    from autoq.report.progress import progress
    from autoq.templates.epilogue import Epilogue
    from autoq.templates.operators.gemm import Gemm
    from autoq.tuner import tune

    works = [Gemm(16, 24, 8 * (i + 1), epilogue=Epilogue("int32")) for i in range(4)]
    with progress(sys.stdout) as show:
        tune(works, trials=32, output={path!r}, target="cpu", tuner="random", seed=1,
             registry="fake_templates:GOOD_ONLY", on_event=show, trials_per_task=8, jobs=1,
             build_timeout=1000.0)
"""


def _held(path, records):
    """A tuner with so many records or more, whose next batch hangs in the compiler."""
    script = textwrap.dedent(SCRIPT.format(fakes=FAKES, path=str(path)))
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "AUTOQ_TEST_HANG_AT": f"{path}:{records}"},
    )  # fmt: skip
    held = path.with_name("held")
    assert _comes_true(lambda: held.exists() or process.poll() is not None)
    assert process.poll() is None, "the tuner ended before its compiler hung"
    held.unlink()
    return process


def _comes_true(condition, seconds=300):
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def _descendants(pid):
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found


def _gone(pids):
    return _comes_true(lambda: not [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()])


def test_kill_9_loses_at_most_the_batch_under_way_and_a_polite_end_nothing(tmp_path):
    """A run that goes on gets SIGTERM (`test_cli_process`: SIGINT), and a third does the rest."""
    path = tmp_path / "log.jsonl"
    process = _held(path, 4)
    children = _descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait(120)
    assert children and _gone(children), "processes of a killed tuner run on"
    path.with_name("held").unlink(missing_ok=True)
    survived = read_records(path).records
    assert len(survived) == 4, "of four tasks, each has its default"
    # As if the kill had come in the middle of a write.
    with path.open("a") as file:
        file.write(survived[0].to_line()[:77])
    resumed = _held(path, 4 + 1)
    children = _descendants(resumed.pid)
    resumed.send_signal(signal.SIGTERM)
    output, _ = resumed.communicate(timeout=120)
    assert resumed.returncode == 0
    assert "interrupted after" in output
    assert "4 of them in the output already" in output
    assert children and _gone(children)
    kept = read_records(path)
    assert not kept.rejected and not kept.torn
    assert 4 + 2 <= len(kept.records) < 32
    works = [dataclasses.replace(FAKE, k=8 * (i + 1)) for i in range(4)]
    with without_processes():
        tune(
            works, trials=32, output=path, target="cpu", tuner="random", seed=1,
            registry="fake_templates:GOOD_ONLY", trials_per_task=8, jobs=1,
        )  # fmt: skip
    records = read_records(path)
    assert not records.rejected and not records.torn
    assert records.records[: len(kept.records)] == kept.records
    assert kept.records[:4] == survived
    trials = trials_of(path)
    assert len(trials) == 32 == len({record.identity for record in trials})


def test_a_time_budget_ends_the_run(tmp_path, monkeypatch):
    """Its time is up once a compiler hangs."""
    path, held = tmp_path / "log.jsonl", tmp_path / "held"
    monkeypatch.setenv("AUTOQ_TEST_HANG_AT", f"{path}:1")

    class Late(MonotonicClock):
        def now(self):
            return super().now() + 2000 * held.exists()

    started = time.monotonic()
    summary = tune(
        [FAKE],
        trials=10_000,
        output=path,
        target="cpu",
        tuner="random",
        registry="fake_templates:GOOD_ONLY",
        time_budget=1000.0,
        build_timeout=1000.0,
        clock=Late(),
    )
    assert isinstance(summary, TuneSummary) and summary.reason == "time"
    assert 1 <= summary.measured < 16 and not summary.failures
    assert time.monotonic() - started < 120


def test_a_time_budget_ends_even_the_start_of_the_device(tmp_path, monkeypatch):
    """No process of this tuner is ever ready."""
    monkeypatch.setattr("autoq.process.child._PROGRAM", "import time; time.sleep(1000)")
    summary = tune(
        [FAKE],
        trials=10,
        output=tmp_path / "log.jsonl",
        target="cpu",
        registry="fake_templates:GOOD_ONLY",
        time_budget=0.1,
    )
    assert summary.reason == "time" and summary.measured == 0
    assert [row.trials for row in summary.rows] == [0]
    assert summary.elapsed_seconds < 60  # a start that takes longer is an error after 120 s


def test_a_model_without_tunable_workloads_is_refused(tmp_path):
    with pytest.raises(InputError, match="no workload that can be tuned"):
        tune([], trials=8, output=tmp_path / "log.jsonl", target="cpu")


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="this host has a GPU")
def test_a_cuda_tune_without_a_gpu_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(TargetError, match="no CUDA GPU"):
        tune(
            [CONV],
            trials=8,
            output=tmp_path / "log.jsonl",
            target="cuda:sm_90a",
        )
    assert not list(tmp_path.iterdir())
