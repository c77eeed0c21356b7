"""Candidates to machine code, many at once in processes of their own."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

from autoq.measure.compile_worker import BuildSettings, Built
from autoq.measure.job import CRASH, OUTSIDE, Job
from autoq.process.child import Child, ChildCrash, ChildError, ChildTimeout, Entry
from autoq.process.pool import ChildPool


class Builder:
    """Compiles candidates in `jobs` child processes, each of which imports TVM once.

    A candidate whose compiler crashes or takes longer than `timeout` seconds fails alone. A
    future raises EnvironmentFault when the machine cannot compile, whatever the candidate.

    Args:
        settings: what all candidates share.
        jobs: processes.
        timeout: seconds that a candidate may compile.
        scratch: the processes' temporary directory.
    """

    def __init__(
        self, settings: BuildSettings, jobs: int, timeout: float, scratch: Path | None = None
    ) -> None:
        self._timeout = timeout
        entry = Entry("autoq.measure.compile_worker", "serve", settings)
        # TVM and numpy would each start a thread for every core in every child.
        environment = {"OPENBLAS_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}
        if scratch is not None:
            environment["TMPDIR"] = str(scratch)
        self._pool = ChildPool(lambda: Child(entry, environment), jobs)

    def warm(self) -> None:
        """Start the processes now."""
        self._pool.warm()

    def submit(self, job: Job) -> Future[Built]:
        """Queue a candidate; the result has a kernel or says why not."""
        return self._pool.submit(lambda child: self._build(child, job))

    def cancel(self) -> None:
        """Drop what is queued; its futures are cancelled."""
        self._pool.cancel()

    def close(self) -> None:
        """Stop compiling and end the processes."""
        self._pool.close()

    def _build(self, child: Child, job: Job) -> Built:
        try:
            built: Built = child.call(job, self._timeout)
        except ChildTimeout:
            return Built(None, f"compiling took longer than {self._timeout:g} s")
        except ChildCrash as error:
            return Built(None, f"the compiler {error}", OUTSIDE if error.outside else CRASH)
        except ChildError as error:
            built = Built(None, str(error), OUTSIDE if error.outside else "")
        if built.death:
            child.kill()  # so that the second try is in a new process
        return built
