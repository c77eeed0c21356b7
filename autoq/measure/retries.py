"""Second tries of candidates whose process died, alone, so that nothing else can be to blame."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from autoq.errors import EnvironmentFault
from autoq.measure.job import CRASH, OUTSIDE, UNTRIED, Job, Measurement

# Deaths of a candidate's process, the first of which may come beside others, and what follows.
_MOST_CRASHES, _MOST_ENDED = 2, 4
_MOST_UNTRIED = 3

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Candidate:
    """A candidate, and how often its process crashed or was ended from outside."""

    job: Job
    future: Future[Measurement]
    crashes: int = 0
    ended: int = 0


class Retries:
    """Gives candidates to `attempt`, and those whose process dies once more with nothing beside.

    A second crash is the candidate's failure. One whose process is ended from outside again and
    again, or for want of memory, is given back with the failure UNTRIED; when this happens to
    several in a row, a future raises EnvironmentFault.

    Args:
        attempt: starts one try; the measurement says how the process died, if it did.
    """

    def __init__(self, attempt: Callable[[Job], Future[Measurement]]) -> None:
        self._attempt = attempt
        self._lock = threading.Lock()
        self._under_way = 0
        self._alone = False
        self._suspects: deque[_Candidate] = deque()
        self._waiting: list[_Candidate] = []
        self._untried_in_a_row = 0
        self._closed = False

    def submit(self, job: Job) -> Future[Measurement]:
        """Queue a candidate, behind those that are to be tried alone."""
        candidate = _Candidate(job, Future())
        with self._lock:
            if self._alone or self._suspects:
                self._waiting.append(candidate)
                return candidate.future
            self._under_way += 1
        self._start(candidate)
        return candidate.future

    def cancel(self) -> None:
        """Drop what has not been started; its futures are cancelled."""
        with self._lock:
            dropped = [*self._suspects, *self._waiting]
            self._suspects.clear()
            self._waiting.clear()
        for candidate in dropped:
            candidate.future.cancel()

    def close(self) -> None:
        """Start nothing any more."""
        with self._lock:
            self._closed = True
        self.cancel()

    def _start(self, candidate: _Candidate) -> None:
        def done(tried: Future[Measurement]) -> None:
            if tried.cancelled():
                candidate.future.cancel()
            elif tried.exception() is not None:
                candidate.future.set_exception(tried.exception())
            else:
                self._tried(candidate, tried.result())
            self._go_on()

        self._attempt(candidate.job).add_done_callback(done)

    def _tried(self, candidate: _Candidate, found: Measurement) -> None:
        candidate.crashes += found.death == CRASH
        candidate.ended += found.death == OUTSIDE
        if found.death and candidate.crashes < _MOST_CRASHES and candidate.ended < _MOST_ENDED:
            with self._lock:
                if not self._closed:
                    self._suspects.append(candidate)
                    return
            candidate.future.cancel()
        elif found.death == OUTSIDE:
            self._give_back(candidate, found.message)
        else:
            self._untried_in_a_row = 0
            candidate.future.set_result(dataclasses.replace(found, death=""))

    def _give_back(self, candidate: _Candidate, message: str) -> None:
        self._untried_in_a_row += 1
        if self._untried_in_a_row < _MOST_UNTRIED:
            work = candidate.job.workload
            _log.warning("%s: a candidate could not be tried, and is no record: %s", work, message)
            candidate.future.set_result(Measurement(failure=UNTRIED, message=message))
            return
        candidate.future.set_exception(
            EnvironmentFault(
                f"{_MOST_UNTRIED} candidates in a row could not be tried: {message}; see that "
                "there is memory and that nothing ends autoq's processes, and run it again"
            )
        )

    def _go_on(self) -> None:
        """Once nothing is under way, try a suspect alone, or else start what waited for that."""
        with self._lock:
            self._under_way -= 1
            if self._under_way or self._closed:
                return
            self._alone = bool(self._suspects)
            if self._alone:
                started = [self._suspects.popleft()]
            else:
                started, self._waiting = self._waiting, []
            self._under_way += len(started)
        for candidate in started:
            self._start(candidate)
