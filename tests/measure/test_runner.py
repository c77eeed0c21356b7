"""Candidates that are right, wrong, crash or hang, each in a real worker process."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from fake_templates import FakeConfig, workload

from autoq.errors import TargetError
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings, Built
from autoq.measure.job import CRASH, OUTSIDE, Job, Measurement, Timing
from autoq.measure.measurer import DeviceMeasurer
from autoq.measure.runner import MeasureError, OutOfTime, Runner
from autoq.measure.worker import Outcome, Prepare, Run, WorkerSettings
from autoq.process.child import ChildCrash
from autoq.templates.target import Target, host_cpu

REGISTRY = "fake_templates:TEMPLATES"


@pytest.fixture(scope="module")
def measurer(tmp_path_factory):
    scratch = tmp_path_factory.mktemp("scratch")
    settings = BuildSettings(REGISTRY, host_cpu(), None)
    builder = Builder(settings, jobs=2, timeout=100.0)
    worker = WorkerSettings(REGISTRY, host_cpu(), 0, seed=0, threads=2, scratch=scratch)
    runner = Runner(worker, Timing(repeat=3, min_seconds=1e-4), timeout=100.0)
    measurer = DeviceMeasurer(builder, runner, runner.describe(), exclusive=True)
    yield measurer
    measurer.close()


def _measure(measurer, behaviour, block=4):
    job = Job(workload(), "rogue", FakeConfig(block, "mn", behaviour))
    return measurer.submit(job).result(300)


def test_a_right_candidate_gets_a_time(measurer):
    found = _measure(measurer, "right")
    assert found.failure is None, found.message
    assert 0 < found.seconds < 0.1 and found.repeats == 3


@pytest.mark.parametrize(
    ("behaviour", "failure", "message"),
    [
        ("wrong", "correctness", "384 of 384 elements wrong"),
        ("unwritten", "correctness", "24 of 384 elements wrong; first at [15, 0]"),
        ("overwrites_input", "correctness", "wrong"),
        ("crash", "runtime", "SIGABRT"),
        ("hang", "timeout", "longer than 2 s"),
        ("build_error", "compile", "the compiler refuses"),
        ("build_bug", "compile", "ZeroDivisionError: a bug in the template"),
        ("build_crash", "compile", "SIGABRT"),
        ("build_hang", "compile", "longer than 2 s"),
    ],
)
def test_a_misbehaving_candidate_fails_alone(measurer, monkeypatch, behaviour, failure, message):
    with monkeypatch.context() as patch:
        if "hang" in behaviour:
            hung = measurer._builder if failure == "compile" else measurer._runner
            patch.setattr(hung, "_timeout", 2.0)
        found = _measure(measurer, behaviour)
    assert found.failure == failure
    assert message in found.message
    assert _measure(measurer, "right", block=8).failure is None


def test_a_batch_with_every_kind_of_failure_comes_back_whole(measurer):
    kinds = ["right", "crash", "wrong", "build_error", "right"]
    jobs = [
        Job(workload(8, 12, 16), "rogue", FakeConfig(block, "nm", kind))
        for block, kind in zip((1, 2, 3, 4, 6), kinds, strict=True)
    ]
    found = [future.result(300).failure for future in [measurer.submit(job) for job in jobs]]
    assert found == [None, "runtime", "correctness", "compile", None]


def test_a_killed_worker_is_not_its_candidates_failure(measurer, monkeypatch):
    """The second try alone may take so little that the candidate's time is up."""
    before = {int(pid) for pid in _children()}
    job = Job(workload(), "rogue", FakeConfig(2, "nm", "hang"))
    found = measurer.submit(job)
    time.sleep(1.0)  # so that it usually runs by now
    monkeypatch.setattr(measurer._runner, "_timeout", 2.0)
    for pid in before:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert found.result(300).failure == "timeout", found.result().message


def test_no_gpu_is_an_error_before_any_candidate(tmp_path):
    if Path("/dev/nvidia0").exists():
        pytest.skip("this host has a GPU")
    target = Target("cuda", "sm_90a")
    worker = WorkerSettings(REGISTRY, target, 0, seed=0, threads=1, scratch=tmp_path)
    runner = Runner(worker, Timing(), timeout=1.0)
    with pytest.raises(TargetError, match="no device to measure on"):
        runner.describe()
    runner.close()


def test_closing_ends_every_process(tmp_path):
    before = _children()
    worker = WorkerSettings(REGISTRY, host_cpu(), 0, seed=0, threads=1, scratch=tmp_path)
    builder = Builder(BuildSettings(REGISTRY, host_cpu(), None), jobs=1, timeout=100.0)
    runner = Runner(worker, Timing(), timeout=100.0)
    device = runner.describe()
    measurer = DeviceMeasurer(builder, runner, device, exclusive=True)
    hanging = Job(workload(), "rogue", FakeConfig(4, "mn", "hang"))
    measurer.submit(hanging)
    end = time.monotonic() + 300
    while hanging not in measurer._kept and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)  # so that the kernel usually runs by now
    pids = _children() - before
    started = time.monotonic()
    measurer.close()
    assert time.monotonic() - started < 60
    assert len(pids) == 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def _children() -> set[str]:
    me = os.getpid()
    tasks = Path(f"/proc/{me}/task").glob("*/children")
    pids = " ".join(path.read_text() for path in tasks).split()
    return {p for p in pids if "autoq.process.serve" in Path(f"/proc/{p}/cmdline").read_text()}


def _compare(measurer, *behaviours):
    jobs = [
        Job(workload(), "rogue", FakeConfig(block, "mn", behaviour))
        for block, behaviour in zip((1, 2, 4), behaviours, strict=False)
    ]
    return measurer.compare(jobs, Timing(repeat=5, min_seconds=1e-4)).result(300)


def test_candidates_are_compared_in_turn_and_only_right_ones_are_timed(measurer):
    good, wrong, other = _compare(measurer, "right", "wrong", "right")
    assert wrong.failure == "correctness" and wrong.seconds is None
    assert good.repeats == other.repeats == 5 and 0 < good.seconds < 0.1


def test_kernels_that_do_not_work_are_no_company(measurer):
    behaviours = ("right", "crash", "wrong", "build_error")
    jobs = [Job(workload(), "rogue", FakeConfig(1, "mn", behaviour)) for behaviour in behaviours]
    measurer.surround(iter(jobs))
    assert [job for job, _ in measurer._runner._company.kernels] == jobs[:1]
    with pytest.raises(OutOfTime, match="longer than 0 s"):
        measurer.surround([Job(workload(), "rogue", FakeConfig(2, "mn", "right"))], 0.0)
    measurer.surround([])


@pytest.mark.parametrize("behaviour", ["crash", "build_error"])
def test_a_comparison_that_cannot_be_made_says_nothing(measurer, behaviour):
    assert _compare(measurer, "right", behaviour) is None
    assert _measure(measurer, "right").failure is None


def test_cancelled_jobs_are_dropped_and_others_go_on(measurer):
    jobs = [Job(workload(), "good", FakeConfig(block, "mn", "right")) for block in (1, 2, 3, 4, 6)]
    futures = [measurer.submit(job) for job in jobs]
    measurer.cancel()
    assert all(future.cancelled() or future.done() for future in futures)
    assert sum(future.cancelled() for future in futures) >= 3
    assert _measure(measurer, "right").failure is None


class _Starved:
    """A child that lives on without memory."""

    def __init__(self, reply):
        self.reply = reply
        self.killed = 0

    def call(self, request, timeout, start=True):
        return None if isinstance(request, Prepare) else self.reply

    def kill(self):
        self.killed += 1


def test_a_process_that_lacks_memory_is_replaced_before_the_second_try(tmp_path):
    job = Job(workload(), "rogue", FakeConfig(1, "mn", "right"))
    builder = Builder(BuildSettings(REGISTRY, host_cpu(), None), jobs=1, timeout=1.0)
    starved = _Starved(Built(None, "std::bad_alloc", OUTSIDE))
    assert builder._build(starved, job).death == OUTSIDE and starved.killed == 1
    builder.close()
    worker = WorkerSettings(REGISTRY, host_cpu(), 0, seed=0, threads=1, scratch=tmp_path)
    runner = Runner(worker, Timing(), timeout=1.0)
    failure = Measurement(
        failure="runtime", message="cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY"
    )
    starved, request = _Starved(Outcome(failure)), Run(job, None, Timing())
    assert runner._measure(starved, request).death == OUTSIDE and starved.killed == 1
    failure = Measurement(failure="runtime", message="cuModuleLoadData failed: CUDA_ERROR_UNKNOWN")
    starved = _Starved(Outcome(failure))
    assert runner._measure(starved, request).death == CRASH and starved.killed == 1
    runner.close()


class _Gone:
    """A child whose device answers until a candidate runs, and never again."""

    gone = False

    def call(self, request, timeout, start=True):
        if self.gone:
            raise ChildCrash("could not start: cuInit returned 100", outside=True)
        if isinstance(request, Run):
            self.gone = True
            failure = Measurement(failure="runtime", message="failed: CUDA_ERROR_UNKNOWN")
            return Outcome(failure, device_lost=True)

    def kill(self):
        pass


def test_a_device_that_is_gone_is_no_failure_of_the_last_candidate(tmp_path):
    worker = WorkerSettings(REGISTRY, host_cpu(), 0, seed=0, threads=1, scratch=tmp_path)
    runner = Runner(worker, Timing(), timeout=1.0)
    with pytest.raises(MeasureError, match=r"cannot prepare.*cuInit"):
        runner._measure(_Gone(), Run(Job(workload(), "rogue", None), None, Timing()))
    runner.close()


class _LostDevice:
    """A child whose device fails in the middle of a comparison."""

    def call(self, request, timeout, start=True):
        failed = Measurement(failure="runtime", message="cuMemAlloc_v2 failed")
        return [Outcome(Measurement(seconds=1e-6)), Outcome(failed)] if not start else None


def test_an_error_in_a_comparison_is_nobodys_failure(tmp_path):
    worker = WorkerSettings(REGISTRY, host_cpu(), 0, seed=0, threads=1, scratch=tmp_path)
    runner = Runner(worker, Timing(), timeout=1.0)
    job = Job(workload(), "rogue", FakeConfig(1, "mn", "right"))
    assert runner._compare(_LostDevice(), ((job, None), (job, None)), Timing()) is None
    runner.close()
