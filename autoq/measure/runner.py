"""One device's measurements, in one child process that is replaced when a candidate breaks it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from autoq.errors import AutoqError, TargetError
from autoq.measure.child import Child, ChildCrash, ChildError, ChildTimeout, Entry
from autoq.measure.job import Job, Measurement, Timing
from autoq.measure.pool import ChildPool
from autoq.measure.worker import Compare, Describe, Outcome, Prepare, Run, WorkerSettings
from autoq.records.record import Device
from autoq.runtime.kernel import Kernel

_PREPARE_SECONDS = 900.0


class MeasureError(AutoqError, RuntimeError):
    """A device that no longer measures anything, whatever the candidate."""


class Runner:
    """Checks and times kernels on one device, one after another.

    A candidate that crashes its process, takes longer than `timeout` seconds, leaves a sticky
    CUDA error or computes something else fails alone: its process is killed, confirmed dead, and
    the next candidate gets a new one.
    """

    def __init__(self, settings: WorkerSettings, timing: Timing, timeout: float) -> None:
        self._timing = timing
        self._timeout = timeout
        entry = Entry("autoq.measure.worker", "serve", settings)
        # The reference has threads of its own; numpy's would get in their way.
        environment = {"OPENBLAS_NUM_THREADS": "1"}
        self._pool = ChildPool(lambda: Child(entry, environment), 1)

    def describe(self) -> Device:
        """The device, from its worker; raises TargetError when it cannot be had."""
        return self._pool.submit(_describe).result()

    def submit(self, job: Job, kernel: Kernel, timing: Timing | None = None) -> Future[Measurement]:
        """Queue a kernel. The future raises MeasureError when the device itself has failed.

        timing: another one than the runner's own.
        """
        chosen = timing or self._timing
        return self._pool.submit(lambda child: self._measure(child, job, kernel, chosen))

    def compare(
        self, candidates: Sequence[tuple[Job, Kernel]], timing: Timing
    ) -> Future[list[Measurement] | None]:
        """Queue kernels of one workload, which are timed in turn.

        The future's result is None when they did not live to the end of it.
        """
        return self._pool.submit(lambda child: self._compare(child, tuple(candidates), timing))

    def cancel(self) -> None:
        """Drop what is queued; its futures are cancelled."""
        self._pool.cancel()

    def close(self) -> None:
        """Stop measuring and end the process."""
        self._pool.close()

    def _measure(self, child: Child, job: Job, kernel: Kernel, timing: Timing) -> Measurement:
        _prepare(child, job)
        try:
            outcome: Outcome = child.call(Run(job, kernel, timing), self._timeout)
        except ChildTimeout:
            return Measurement(failure="timeout", message=f"ran longer than {self._timeout:g} s")
        except ChildCrash as error:
            return Measurement(failure="runtime", message=f"the worker {error}")
        except ChildError as error:
            return Measurement(failure="runtime", message=str(error))
        if outcome.device_lost:
            child.kill()
        return outcome.measurement

    def _compare(
        self, child: Child, candidates: tuple[tuple[Job, Kernel], ...], timing: Timing
    ) -> list[Measurement] | None:
        _prepare(child, candidates[0][0])
        try:
            outcomes: list[Outcome] = child.call(
                Compare(candidates, timing), self._timeout * len(candidates)
            )
        except (ChildCrash, ChildError, ChildTimeout):
            return None
        if any(outcome.device_lost for outcome in outcomes):
            child.kill()
            return None
        return [outcome.measurement for outcome in outcomes]


def _describe(child: Child) -> Device:
    try:
        return child.call(Describe(), _PREPARE_SECONDS)
    except (ChildCrash, ChildTimeout) as error:
        reason = str(error).removeprefix("could not start: TargetError: ")
        raise TargetError(f"no device to measure on: {reason}") from error


def _prepare(child: Child, job: Job) -> None:
    """Have the inputs ready, with a second try in a new process."""
    try:
        child.call(Prepare(job.workload), _PREPARE_SECONDS)
    except (ChildCrash, ChildError, ChildTimeout):
        child.kill()
        try:
            child.call(Prepare(job.workload), _PREPARE_SECONDS)
        except (ChildCrash, ChildError, ChildTimeout) as error:
            raise MeasureError(f"cannot prepare the inputs of {job.workload}: {error}") from error
