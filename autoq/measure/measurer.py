"""Jobs in, measurements out: builder and runner behind one queue, or a recording of them."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Protocol

from autoq.measure.builder import Builder
from autoq.measure.compile_worker import Built
from autoq.measure.job import Job, Measurement
from autoq.measure.runner import Runner
from autoq.records.record import Device


class Measurer(Protocol):
    """Measures candidates in the background."""

    @property
    def device(self) -> Device:
        """What the measurements are of."""
        ...

    @property
    def pipelined(self) -> bool:
        """Whether more may be submitted while earlier jobs are under way."""
        ...

    def submit(self, job: Job) -> Future[Measurement]: ...

    def close(self) -> None: ...


class DeviceMeasurer:
    """Builds in parallel and measures what is built on one device.

    exclusive: the device is also where the compilers run, so nothing is timed while anything is
    being built.
    """

    def __init__(self, builder: Builder, runner: Runner, device: Device, exclusive: bool) -> None:
        self.device = device
        self.pipelined = not exclusive
        self._builder = builder
        self._runner = runner
        self._lock = threading.Lock()
        self._building = 0
        self._held: list[tuple[Job, Built, Future[Measurement]]] = []

    def submit(self, job: Job) -> Future[Measurement]:
        """Queue a candidate."""
        future: Future[Measurement] = Future()
        with self._lock:
            self._building += 1
        self._builder.submit(job).add_done_callback(lambda done: self._built(job, done, future))
        return future

    def close(self) -> None:
        """Drop what is queued and end all processes."""
        self._builder.close()
        self._runner.close()

    def _built(self, job: Job, done: Future[Built], future: Future[Measurement]) -> None:
        with self._lock:
            self._building -= 1
            if done.cancelled():
                future.cancel()
            elif done.exception() is not None:
                future.set_exception(done.exception())
            else:
                self._held.append((job, done.result(), future))
            if not self.pipelined and self._building:
                return
            ready, self._held = self._held, []
        for item in ready:
            self._run(*item)

    def _run(self, job: Job, built: Built, future: Future[Measurement]) -> None:
        if built.kernel is None:
            future.set_result(Measurement(failure="compile", message=built.message))
            return
        self._runner.submit(job, built.kernel).add_done_callback(
            lambda done: _transfer(done, future)
        )


def _transfer(done: Future[Measurement], future: Future[Measurement]) -> None:
    if done.cancelled():
        future.cancel()
    elif done.exception() is not None:
        future.set_exception(done.exception())
    else:
        future.set_result(done.result())
