"""Candidates that misbehave on a GPU: each fails alone, whatever it does to the context."""

import time

import pytest
from fake_cuda_templates import FakeConfig, workload
from gpu_kernels import end_if_compile_only
from with_nvcc import needs_nvcc

from autoq.devices import resolve
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings
from autoq.measure.job import Job, Timing
from autoq.measure.measurer import DeviceMeasurer
from autoq.measure.runner import Runner
from autoq.measure.worker import WorkerSettings
from autoq.templates.target import parse_target

REGISTRY = "fake_cuda_templates:TEMPLATES"


@needs_nvcc
def test_the_fake_candidates_compile_without_a_gpu():
    builder = Builder(BuildSettings(REGISTRY, parse_target("cuda:sm_80"), None), 2, 60.0)
    names = ("right", "hang", "compile_error")
    futures = [builder.submit(Job(workload(), "fake", FakeConfig(name))) for name in names]
    right, hang, error = (future.result(60) for future in futures)
    builder.close()
    assert right.kernel.launches[0].grid == (64, 1, 1), right.message
    assert hang.kernel is not None
    assert error.kernel is None and "nvcc failed" in error.message


@pytest.fixture(scope="module")
def measurer(tmp_path_factory):
    end_if_compile_only()
    host = resolve("cuda")
    builder = Builder(BuildSettings(REGISTRY, host.target, None), jobs=4, timeout=60.0)
    scratch = tmp_path_factory.mktemp("scratch")
    worker = WorkerSettings(REGISTRY, host.target, 0, seed=0, threads=2, scratch=scratch)
    runner = Runner(worker, Timing(repeat=5), timeout=20.0)
    measurer = DeviceMeasurer(builder, runner, runner.describe(), exclusive=False)
    yield measurer
    measurer.close()


def _measure(measurer, behaviour):
    return measurer.submit(Job(workload(), "fake", FakeConfig(behaviour))).result(120)


@pytest.mark.gpu
def test_a_right_candidate_gets_a_plausible_time(measurer):
    found = _measure(measurer, "right")
    assert found.failure is None, found.message
    assert 1e-6 < found.seconds < 1e-3 and found.repeats == 5


@pytest.mark.gpu
@pytest.mark.parametrize("timing", [Timing(5, cold=True), Timing(5, overlapped=True)])
def test_other_timings_are_plausible_too(tmp_path, timing):
    end_if_compile_only()
    host = resolve("cuda")
    builder = Builder(BuildSettings(REGISTRY, host.target, None), jobs=1, timeout=60.0)
    worker = WorkerSettings(REGISTRY, host.target, 0, seed=0, threads=2, scratch=tmp_path)
    runner = Runner(worker, timing, timeout=20.0)
    measurer = DeviceMeasurer(builder, runner, runner.describe(), exclusive=False)
    found = _measure(measurer, "right")
    measurer.close()
    assert found.failure is None, found.message
    assert 1e-6 < found.seconds < 1e-2


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("behaviour", "failure", "message"),
    [
        ("wrong", "correctness", "6144 of 6144 elements wrong"),
        ("unwritten", "correctness", "96 of 6144 elements wrong; first at [63, 0]"),
        ("illegal_address", "runtime", "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("trap", "runtime", "CUDA_ERROR"),
        ("hang", "timeout", "longer than 20 s"),
        ("compile_error", "compile", "nvcc failed"),
    ],
)
def test_a_misbehaving_candidate_fails_alone(measurer, behaviour, failure, message):
    found = _measure(measurer, behaviour)
    assert found.failure == failure, found.message
    assert message in found.message
    started = time.monotonic()
    assert _measure(measurer, "right").failure is None
    assert time.monotonic() - started < 100


def _compare(measurer, *behaviours, **timing):
    jobs = [Job(workload(), "fake", FakeConfig(behaviour)) for behaviour in behaviours]
    return measurer.compare(jobs, Timing(5, **timing)).result(120)


@pytest.mark.gpu
@pytest.mark.parametrize("timing", [{}, {"cold": True}, {"overlapped": True}])
def test_right_candidates_are_timed_in_turn_beside_wrong_ones(measurer, timing):
    right, wrong, again = _compare(measurer, "right", "wrong", "right", **timing)
    assert wrong.failure == "correctness" and wrong.seconds is None
    assert right.repeats == again.repeats == 5
    assert 1e-6 < right.seconds < 1e-2 and right.seconds < 2 * again.seconds < 4 * right.seconds


@pytest.mark.gpu
def test_a_candidate_is_timed_by_what_it_adds_to_others(measurer):
    right, wrong, other = (
        Job(workload(), "fake", FakeConfig(each)) for each in ("right", "wrong", "right")
    )
    measurer.surround([wrong, other])
    (found,) = measurer.compare([right], Timing(9, overlapped=True)).result(120)
    (alone,) = measurer.compare([right], Timing(9)).result(120)
    assert found.repeats == 9 and 0.2 * alone.seconds < found.seconds < 2 * alone.seconds


@pytest.mark.gpu
@pytest.mark.parametrize("behaviour", ["trap", "hang", "compile_error"])
def test_a_comparison_that_cannot_be_made_says_nothing(measurer, behaviour):
    assert _compare(measurer, "right", behaviour) is None
    assert _measure(measurer, "right").failure is None
