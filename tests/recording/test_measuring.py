"""Several devices record one list: each takes what it can, and all becomes one file."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from autoq.devices import resolve
from autoq.errors import InputError, TargetError
from autoq.measure.job import Job, Measurement
from autoq.measure.runner import MeasureError, Runner
from autoq.recording import devices
from autoq.recording.measuring import Recorder, in_turn
from autoq.recording.options import RecordOptions
from autoq.records.journal import Journal
from autoq.records.lines import read_records
from autoq.records.record import Device
from autoq.templates.operators.gemm import Gemm
from autoq.tuning.clock import MonotonicClock
from autoq.tuning.provenance import Provenance

DEVICE = Device("NVIDIA H200", "sm_90a")
WORKLOADS = [Gemm(64, 64, 64), Gemm(128, 64, 64)]


class FakeDevice:
    """Calls `before` ahead of each candidate, which may wait; a lost one answers a few."""

    device, pipelined = DEVICE, True

    def __init__(
        self, before: Callable[[], None] = lambda: None, answers: int | None = None
    ) -> None:
        self.measured: list[Job] = []
        self._before, self._answers = before, answers
        self._thread = ThreadPoolExecutor(1)

    def submit(self, job):
        return self._thread.submit(self._measure, job)

    def _measure(self, job):
        self._before()
        if len(self.measured) == self._answers:
            raise MeasureError("the device is gone")
        self.measured.append(job)
        return Measurement(seconds=1e-6, repeats=1)

    def cancel(self):
        self._thread.shutdown(cancel_futures=True)


def happens(event: threading.Event) -> None:
    """Wait for what comes at once, or on a busy machine a little later."""
    assert event.wait(60)


TEMPLATE = SimpleNamespace(name="t", version=1)


@dataclass(frozen=True)
class Config:
    tile: int


def recorded(measurers, folder, each=300, at_once=2, stop=lambda: False):
    jobs = {w: [Job(w, "t", Config(i)) for i in range(each)] for w in WORKLOADS}
    with ExitStack() as held:
        journals = {
            w: held.enter_context(Journal(folder / f"{w.m}.jsonl", lambda text: None))
            for w in WORKLOADS
        }
        Recorder(
            measurers, Provenance(DEVICE, "0", "0"), {"t": TEMPLATE}, journals,
            stop, MonotonicClock(),
        ).run(in_turn(jobs.values(), at_once))  # fmt: skip
    return [[r.config["tile"] for r in read_records(folder / f"{w.m}.jsonl").records]
            for w in WORKLOADS]  # fmt: skip


def test_a_list_is_shared_out_as_devices_take_it(tmp_path):
    """The slow device waits until the quick one has measured more than half of the list."""
    ahead = threading.Event()
    quick = FakeDevice(lambda: ahead.set() if len(quick.measured) > 300 else None)
    slow = FakeDevice(lambda: happens(ahead))
    for tiles in recorded([quick, slow], tmp_path):
        assert sorted(tiles) == [*range(300)]
    assert len(quick.measured) > 300 and len(slow.measured) > 0
    assert len({*quick.measured, *slow.measured}) == 600 == len(quick.measured + slow.measured)


@pytest.mark.parametrize(("at_once", "expected"), [(1, [300, 10]), (2, [64 + 64 + 54, 64 + 64])])
def test_an_early_end_leaves_the_first_workload_finished_or_some_of_each(
    tmp_path, at_once, expected
):
    """The device waits behind 310 candidates for the end, which comes when all are collected."""
    held, ended = threading.Event(), threading.Event()
    asked = []

    def before():
        if len(device.measured) == 310:
            held.set()
            happens(ended)

    def stop():
        if held.is_set():
            asked.append(len(device.measured))
        if len(asked) == 2:
            ended.set()
        return ended.is_set()

    device = FakeDevice(before)
    found = recorded([device], tmp_path, at_once=at_once, stop=stop)
    assert asked == [310, 310]
    assert [len(tiles) for tiles in found] == expected


def test_workloads_in_turn_are_asked_for_when_they_are_needed():
    asked = []

    def jobs_of(name, number):
        asked.append(name)
        return (f"{name}{i}" for i in range(number))

    source = in_turn((jobs_of(name, n) for name, n in (("a", 70), ("b", 1), ("c", 2))), 2)
    assert not asked
    assert [next(source) for _ in range(64)] == [f"a{i}" for i in range(64)]
    assert asked == ["a", "b"]
    assert list(source) == ["b0", *(f"a{i}" for i in range(64, 70)), "c0", "c1"]
    assert [*in_turn([[1, 2], [], [3]], 1)] == [1, 2, 3]


def test_what_is_measured_is_kept_when_a_device_is_lost(tmp_path):
    lost = FakeDevice(answers=20)
    with pytest.raises(MeasureError, match="is gone"):
        recorded([FakeDevice(), lost], tmp_path)
    # A workload whose turn had not come has no file.
    kept = sum(len(read_records(path).records) for path in tmp_path.glob("*.jsonl"))
    assert len(lost.measured) == 20 and kept >= 20


def test_devices_of_two_names_are_refused(tmp_path, monkeypatch):
    names = iter(["NVIDIA H200", "NVIDIA H100 80GB HBM3"])
    monkeypatch.setattr(Runner, "describe", lambda self: Device(next(names), "sm_90a"))
    options = RecordOptions(devices=(0, 1), jobs=2)
    with (
        pytest.raises(InputError, match="H100 80GB HBM3, NVIDIA H200 differ"),
        devices.opened_measurers(resolve("cuda:sm_90a"), options, tmp_path, places={}),
    ):
        pass


def test_a_cpu_is_one_device(tmp_path):
    options = RecordOptions(devices=(0, 1), jobs=2)
    with (
        pytest.raises(TargetError, match="device 1 is the number of a GPU"),
        devices.opened_measurers(resolve("cpu"), options, tmp_path, places={}),
    ):
        pass
