"""One device's measurements, in one child process that is replaced when a candidate breaks it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import Future, TimeoutError
from pathlib import Path
from typing import Any

from autoq.errors import AutoqError, EnvironmentFault, TargetError
from autoq.measure.job import CRASH, OUTSIDE, Job, Measurement, Timing
from autoq.measure.packing_ahead import PackingAhead
from autoq.measure.worker import Company, Compare, Describe, Outcome, Prepare, Run, WorkerSettings
from autoq.process.blame import machines_fault, unclear
from autoq.process.child import Child, ChildCrash, ChildError, ChildTimeout, Entry
from autoq.process.pool import ChildPool
from autoq.records.record import Device
from autoq.runtime.kernel import Kernel

_PREPARE_SECONDS = 900.0
# Further tries in a new process, and those when the process was ended from outside.
_AGAIN, _AGAIN_OUTSIDE = 1, 4


class MeasureError(EnvironmentFault):
    """A device that no longer measures anything, whatever the candidate."""


class OutOfTime(AutoqError):
    """What was asked for takes longer than there is time for it."""


class Runner:
    """Checks and times kernels on one device, one after another.

    A candidate that crashes its process, takes longer than `timeout` seconds, leaves a sticky
    CUDA error or computes something else fails alone: its process is killed, confirmed dead, and
    the next candidate gets a new one.

    Args:
        settings: of the process.
        timing: of candidates, where `submit` is given no other.
        timeout: seconds that a candidate may take.
        packing: packs the constants of candidates before their turn comes, and is closed with this;
            None to pack them in the device's own process.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        timing: Timing,
        timeout: float,
        packing: PackingAhead | None = None,
    ) -> None:
        self._packing = packing
        self._timing = timing
        self._timeout = timeout
        self._company = Company(())
        self._company_of: int | None = None  # process that has it
        entry = Entry("autoq.measure.worker", "serve", settings)
        environment = {
            # The reference has threads of its own; numpy's would get in their way.
            "OPENBLAS_NUM_THREADS": "1",
            # Keeps the memory of numpy's large arrays for the next ones: where memory is new,
            # writing it costs ten times as much as the arithmetic.
            "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
            "MALLOC_TRIM_THRESHOLD_": str(1 << 28),
        }
        self._pool = ChildPool(lambda: Child(entry, environment), 1)

    def describe(self, seconds: float | None = None) -> Device:
        """The device, from its worker.

        Raises TargetError when it cannot be had, OutOfTime when it takes more than `seconds`.
        """
        try:
            return self._pool.submit(_describe).result(seconds)
        except TimeoutError:
            raise OutOfTime(f"the device did not answer within {seconds:g} s") from None

    def submit(self, job: Job, kernel: Kernel, timing: Timing | None = None) -> Future[Measurement]:
        """Queue a kernel. The future raises MeasureError when the device itself has failed.

        timing: another one than the runner's own.
        """
        chosen = timing or self._timing

        def measure(packed: Path | None) -> Future[Measurement]:
            request = Run(job, kernel, chosen, packed)
            return self._pool.submit(lambda child: self._measure(child, request))

        return measure(None) if self._packing is None else self._packing.submit(job, measure)

    def compare(
        self, candidates: Sequence[tuple[Job, Kernel]], timing: Timing
    ) -> Future[list[Measurement] | None]:
        """Queue kernels of one workload, which are timed in turn.

        The future's result is None when they did not live to the end of it.
        """
        return self._pool.submit(lambda child: self._compare(child, tuple(candidates), timing))

    def surround(self, kernels: Sequence[tuple[Job, Kernel]]) -> None:
        """Time what overlaps among launches of these from now on; they have run well before."""
        self._company, self._company_of = Company(tuple(kernels)), None

    def cancel(self) -> None:
        """Drop what is queued; its futures are cancelled."""
        if self._packing is not None:
            self._packing.cancel()
        self._pool.cancel()

    def close(self) -> None:
        """Stop measuring and end the process."""
        if self._packing is not None:
            self._packing.close()
        self._pool.close()

    def _measure(self, child: Child, request: Run) -> Measurement:
        job = request.job
        self._make_ready(child, job, request.timing)
        try:
            outcome: Outcome = child.call(request, self._timeout, start=False)
        except ChildTimeout:
            return Measurement(failure="timeout", message=f"ran longer than {self._timeout:g} s")
        except ChildCrash as error:
            death = OUTSIDE if error.outside else CRASH
            return Measurement(failure="runtime", message=f"the worker {error}", death=death)
        except ChildError as error:
            death = OUTSIDE if error.outside else ""
            outcome = Outcome(Measurement(failure="runtime", message=str(error), death=death))
        found = outcome.measurement
        if found.failure == "runtime" and machines_fault(found.message):
            found = dataclasses.replace(found, death=OUTSIDE)
        elif found.failure == "runtime" and unclear(found.message):
            found = dataclasses.replace(found, death=CRASH)
        if outcome.device_lost or found.death:
            child.kill()  # so that the next candidate, or the second try, is in a new process
        if outcome.device_lost:
            _prepare(child, job)  # raises when the device is gone for good, whoever's fault it is
        return found

    def _compare(
        self, child: Child, candidates: tuple[tuple[Job, Kernel], ...], timing: Timing
    ) -> list[Measurement] | None:
        self._make_ready(child, candidates[0][0], timing)
        try:
            outcomes: list[Outcome] = child.call(
                Compare(candidates, timing), self._timeout * len(candidates), start=False
            )
        except (ChildCrash, ChildError, ChildTimeout):
            return None
        if any(outcome.device_lost for outcome in outcomes):
            child.kill()
        found = [outcome.measurement for outcome in outcomes]
        # An error of the device or a want of memory may be any candidate's, or nobody's.
        return None if any(one.failure == "runtime" for one in found) else found

    def _make_ready(self, child: Child, job: Job, timing: Timing) -> None:
        """Have the inputs ready, and what is launched besides, both in one process."""
        _prepare(child, job)
        while timing.overlapped and child.pid != self._company_of:
            try:
                _surviving(child, self._company, again=_AGAIN)
            except (ChildCrash, ChildError, ChildTimeout) as error:
                raise MeasureError(f"cannot load the kernels of a network: {error}") from error
            self._company_of = child.pid
            _prepare(child, job)


def _describe(child: Child) -> Device:
    try:
        return _surviving(child, Describe(), again=0)
    except (ChildCrash, ChildError, ChildTimeout, EnvironmentFault) as error:
        raise TargetError(f"no device to measure on: {error}") from error


def _prepare(child: Child, job: Job) -> None:
    """Have the inputs ready."""
    try:
        _surviving(child, Prepare(job.workload), again=_AGAIN)
    except (ChildCrash, ChildError, ChildTimeout, EnvironmentFault) as error:
        raise MeasureError(f"cannot prepare the inputs of {job.workload}: {error}") from error


def _surviving(child: Child, request: Describe | Prepare | Company, again: int) -> Any:
    """The reply to a request that no candidate has a part in, with tries in new processes."""
    tries = 0
    while True:
        try:
            return child.call(request, _PREPARE_SECONDS)
        except (ChildCrash, ChildError, ChildTimeout, EnvironmentFault) as error:
            killed = isinstance(error, ChildCrash) and error.outside
            if tries >= (_AGAIN_OUTSIDE if killed else again):
                raise
        child.kill()
        tries += 1
