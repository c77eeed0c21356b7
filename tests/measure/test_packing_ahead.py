"""Constants that processes of their own pack ahead of the device's worker."""

import time
from concurrent.futures import Future

import ml_dtypes
import numpy as np
import pytest
from fake_templates import TEMPLATES, FakeConfig, workload

from autoq.measure.arrays import random_case
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings
from autoq.measure.job import Job, Timing
from autoq.measure.measurer import DeviceMeasurer
from autoq.measure.packing_ahead import (
    PackingAhead,
    PackingSettings,
    read_packed,
    write_packed,
)
from autoq.measure.runner import Runner
from autoq.measure.worker import WorkerSettings
from autoq.templates.target import host_cpu

REGISTRY = "fake_templates:TEMPLATES"
LARGE, SMALL = workload(16, 24, 1 << 14), workload()


@pytest.fixture
def packing(tmp_path):
    packing = PackingAhead(PackingSettings(REGISTRY, 3, tmp_path), 1)
    yield packing
    packing.close()


def _job(of, block=4, behaviour="right"):
    return Job(of, "rogue", FakeConfig(block, "mn", behaviour))


class _Pending:
    """Measurements that end when the test says so."""

    def __init__(self):
        self.begun = []

    def __call__(self, path):
        future = Future()
        self.begun.append((path, future))
        return future


def _until(condition):
    end = time.monotonic() + 300
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_constants_are_those_that_the_worker_would_pack(packing):
    pending = _Pending()
    packing.submit(_job(LARGE), pending)
    _until(lambda: pending.begun)
    path, _ = pending.begun[0]
    _, constants = random_case(LARGE, 3)
    (template,) = (one for one in TEMPLATES if one.name == "rogue")
    expected = template.constants(LARGE, FakeConfig(4, "mn", "right"), constants)
    found = read_packed(path)
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_arrays_of_all_types_are_read_as_they_were_written(tmp_path):
    kinds = np.int8, np.uint32, np.float16, ml_dtypes.bfloat16, ml_dtypes.int4, np.bool_
    written = [np.arange(-4, 4).astype(kind).reshape(2, 4)[:, ::2] for kind in kinds]
    written += [np.empty((0, 3), np.float32), np.array(7, np.int64)]
    with open(tmp_path / "some.packed", "wb") as file:
        write_packed(file, written)
    found = read_packed(tmp_path / "some.packed")
    for one, other in zip(found, written, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_array_equal(one, other)


def test_small_constants_are_left_to_the_worker(packing):
    pending = _Pending()
    packing.submit(_job(SMALL), pending)
    assert [path for path, _ in pending.begun] == [None]


def test_few_files_wait_for_the_device_and_none_stays(packing, tmp_path):
    pending = _Pending()
    futures = [packing.submit(_job(LARGE, block), pending) for block in (1, 2, 3, 4, 6)]
    _until(lambda: len(pending.begun) == 2)
    assert len([*tmp_path.glob("*.packed")]) == 2
    for i in range(5):
        _until(lambda i=i: len(pending.begun) > i)
        pending.begun[i][1].set_result(i)
    assert sorted(future.result(300) for future in futures) == [0, 1, 2, 3, 4]
    assert not [*tmp_path.glob("*.packed")]


def test_cancelling_drops_what_waits(packing, tmp_path):
    pending = _Pending()
    futures = [packing.submit(_job(LARGE, block), pending) for block in (1, 2, 3, 4, 6)]
    _until(lambda: len(pending.begun) == 2)
    packing.cancel()
    assert [future.cancelled() for future in futures] == [False, False, True, True, True]


def test_a_process_that_cannot_pack_leaves_it_to_the_worker(tmp_path):
    packing = PackingAhead(PackingSettings(REGISTRY, 3, tmp_path / "missing"), 1)
    pending = _Pending()
    try:
        packing.submit(_job(LARGE), pending)
        _until(lambda: pending.begun)
        assert pending.begun[0][0] is None
    finally:
        packing.close()


def test_candidates_are_measured_with_what_was_packed_ahead(tmp_path):
    """A wrong kernel is told from a right one, so the constants are those of the reference."""
    worker = WorkerSettings(REGISTRY, host_cpu(), 0, seed=3, threads=1, scratch=tmp_path)
    packing = PackingAhead(PackingSettings(REGISTRY, 3, tmp_path), 1)
    runner = Runner(worker, Timing(repeat=2, min_seconds=1e-4), 120.0, packing)
    builder = Builder(BuildSettings(REGISTRY, host_cpu(), None), jobs=1, timeout=60.0)
    measurer = DeviceMeasurer(builder, runner, runner.describe(), exclusive=True)
    try:
        kinds = ("right", "wrong", "right")
        jobs = [_job(LARGE, block, kind) for block, kind in zip((2, 3, 4), kinds, strict=True)]
        found = [future.result(300) for future in [measurer.submit(job) for job in jobs]]
    finally:
        measurer.close()
    assert [one.failure for one in found] == [None, "correctness", None]
    assert not [*tmp_path.glob("*.packed")]
