"""What stands for a builder where the kernels were compiled ahead."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

from autoq.errors import AutoqError
from autoq.measure.compile_worker import Built
from autoq.measure.job import Job
from autoq.recording.bundle import BundleFolder, Compiled

Place = tuple[BundleFolder, Compiled]


class KeptKernels:
    """Gives the kernels of bundles at once; `places` says where each candidate's is.

    A candidate that did not compile gives the compiler's complaint, as a builder does. A future
    raises RecordError for a damaged kernel.
    """

    def __init__(self, places: Mapping[Job, Place]) -> None:
        self._places = places

    def warm(self) -> None:
        """Nothing: there is no process to start."""

    def submit(self, job: Job) -> Future[Built]:
        """The kernel of a candidate of the bundles, already there."""
        future: Future[Built] = Future()
        folder, compiled = self._places[job]
        if compiled.place is None:
            future.set_result(Built(None, compiled.message))
            return future
        try:
            future.set_result(Built(folder.kernel(compiled)))
        except AutoqError as error:
            future.set_exception(error)
        return future

    def cancel(self) -> None:
        """Nothing: nothing is queued."""

    def close(self) -> None:
        """Nothing: there is no process to end."""
