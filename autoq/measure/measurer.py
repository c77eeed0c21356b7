"""Jobs in, measurements out: builder and runner behind one queue, or a recording of them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, TimeoutError
from typing import Protocol, TypeVar

from autoq.measure.builder import Builder
from autoq.measure.compile_worker import Built
from autoq.measure.job import Job, Measurement, Timing
from autoq.measure.retries import Retries
from autoq.measure.runner import OutOfTime, Runner
from autoq.process.futures import transfer
from autoq.records.record import Device
from autoq.runtime.kernel import Kernel

# Kernels kept for comparisons: a few for each task of a large model, some 100 KiB each at most.
_MOST_KEPT = 512

# Whether a kernel works shows in its check.
_TRIED = Timing(repeat=1, number=1)

_T = TypeVar("_T")


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

    def compare(self, jobs: Sequence[Job], timing: Timing) -> Future[list[Measurement] | None]:
        """Time candidates of one workload in turn: a measurement for each.

        None when one of them cannot be built or brought the worker down.
        """
        ...

    def surround(self, jobs: Iterable[Job], seconds: float | None = None) -> None:
        """Time launches that overlap among those of other kernels from now on.

        What is measured is then what a launch adds to them. Kernels that do not work are left out.
        Raises OutOfTime when it takes more than `seconds`.
        """
        ...

    def cancel(self) -> None:
        """Drop all submitted jobs; futures without a result are cancelled."""
        ...

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
        self._open: set[Future[Measurement]] = set()
        self._retries = Retries(self._attempt)
        self._kept: OrderedDict[Job, Kernel] = OrderedDict()

    def submit(self, job: Job) -> Future[Measurement]:
        """Queue a candidate; one whose process dies is tried again, as `Retries` says."""
        return self._retries.submit(job)

    def compare(self, jobs: Sequence[Job], timing: Timing) -> Future[list[Measurement] | None]:
        """As the protocol says; kernels that were measured lately are not built again."""
        future: Future[list[Measurement] | None] = Future()
        waiting = [self._kernel(job) for job in jobs]
        missing = len(waiting)

        def built(done: Future[Built]) -> None:
            nonlocal missing
            with self._lock:
                missing -= 1
                if missing:
                    return
            self._compare(jobs, waiting, timing, future)

        for kernel in waiting:
            kernel.add_done_callback(built)
        return future

    def surround(self, jobs: Iterable[Job], seconds: float | None = None) -> None:
        """As the protocol says; each of the kernels is tried by itself before."""
        clock = time.monotonic
        until = None if seconds is None else clock() + seconds

        def in_time(future: Future[_T]) -> _T:
            try:
                return future.result(None if until is None else max(0.0, until - clock()))
            except TimeoutError:
                text = f"the kernels of the network take longer than {seconds:g} s"
                raise OutOfTime(text) from None

        working = []
        for job, building in [(job, self._kernel(job)) for job in jobs]:
            kernel = in_time(building).kernel
            if kernel is not None:
                self._keep(job, kernel)
                if in_time(self._runner.submit(job, kernel, _TRIED)).seconds is not None:
                    working.append((job, kernel))
        self._runner.surround(working)

    def cancel(self) -> None:
        """As the protocol says. Compilers under way go on; what they bring is dropped."""
        self._retries.cancel()
        self._builder.cancel()
        self._runner.cancel()
        with self._lock:
            dropped, self._held = [*self._open], []
        for future in dropped:
            future.cancel()

    def close(self) -> None:
        """Drop what is queued and end all processes."""
        self._retries.close()
        self._builder.close()
        self._runner.close()

    def _attempt(self, job: Job) -> Future[Measurement]:
        future: Future[Measurement] = Future()
        with self._lock:
            self._building += 1
            self._open.add(future)
        future.add_done_callback(self._forget)
        self._kernel(job).add_done_callback(lambda done: self._built(job, done, future))
        return future

    def _forget(self, future: Future[Measurement]) -> None:
        with self._lock:
            self._open.discard(future)

    def _kernel(self, job: Job) -> Future[Built]:
        """A kept kernel, or one to come."""
        with self._lock:
            kept = self._kept.get(job)
        if kept is None:
            return self._builder.submit(job)
        done: Future[Built] = Future()
        done.set_result(Built(kept))
        return done

    def _compare(
        self,
        jobs: Sequence[Job],
        built: Sequence[Future[Built]],
        timing: Timing,
        future: Future[list[Measurement] | None],
    ) -> None:
        if any(done.cancelled() for done in built):
            future.cancel()
            return
        errors = [error for error in (done.exception() for done in built) if error is not None]
        if errors:
            future.set_exception(errors[0])
            return
        pairs = [
            (job, kernel)
            for job, kernel in zip(jobs, (done.result().kernel for done in built), strict=True)
            if kernel is not None
        ]
        if len(pairs) < len(jobs):
            future.set_result(None)
            return
        self._runner.compare(pairs, timing).add_done_callback(lambda done: transfer(done, future))

    def _built(self, job: Job, done: Future[Built], future: Future[Measurement]) -> None:
        failed = done.cancelled() or done.exception() is not None
        with self._lock:
            self._building -= 1
            if not failed:
                self._held.append((job, done.result(), future))
            ready: list[tuple[Job, Built, Future[Measurement]]] = []
            if self.pipelined or not self._building:
                ready, self._held = self._held, []
        if failed:
            transfer(done, future)
        for item in ready:
            self._run(*item)

    def _run(self, job: Job, built: Built, future: Future[Measurement]) -> None:
        if future.cancelled():
            return
        if built.kernel is None:
            done: Future[Measurement] = Future()
            done.set_result(
                Measurement(failure="compile", message=built.message, death=built.death)
            )
            transfer(done, future)
            return
        self._keep(job, built.kernel)
        self._runner.submit(job, built.kernel).add_done_callback(
            lambda done: transfer(done, future)
        )

    def _keep(self, job: Job, kernel: Kernel) -> None:
        with self._lock:
            self._kept[job] = kernel
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
