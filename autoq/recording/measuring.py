"""Measures planned configurations once each, on one device or several, into record files."""

from __future__ import annotations

import queue
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import islice

from autoq.measure.job import UNTRIED, Job, Measurement
from autoq.measure.measurer import Measurer
from autoq.records.journal import Journal
from autoq.search.knobs import plain_config
from autoq.templates.base import Template
from autoq.templates.workload import Workload
from autoq.tuning.clock import Clock
from autoq.tuning.provenance import Provenance

# Candidates of one workload that are measured in a row: its inputs are made anew for each such run
# where the device's memory does not hold those of all.
_RUN = 64
# Candidates under way on each device: enough that compilers and device never wait for this loop.
_QUEUED = 256
# A device that also compiles measures nothing meanwhile: candidates are built in groups.
_GROUP = 32
_FLUSH_SECONDS = 1.0


@dataclass
class Measured:
    """What a recording did: times and failures by kind, and candidates that were left out.

    foreign: failures of kernels whose template's source code has changed since they were compiled,
    which say nothing of the template and are no records.
    """

    timed: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    foreign: int = 0
    untried: int = 0

    @property
    def trials(self) -> int:
        """All that became records."""
        return self.timed + sum(self.failures.values())


class Recorder:
    """Feeds measurers from one queue of candidates and writes what they find.

    Args:
        measurers: one for each device, of the same kind.
        provenance: of the records.
        templates: by name.
        journals: where the trials of each workload go.
        stop: whether to end now.
        clock: for how often the files are written.
        foreign: jobs whose failures are not recorded.
    """

    def __init__(
        self,
        measurers: Sequence[Measurer],
        provenance: Provenance,
        templates: Mapping[str, Template],
        journals: Mapping[Workload, Journal],
        stop: Callable[[], bool],
        clock: Clock,
        foreign: frozenset[Job] = frozenset(),
    ) -> None:
        self._measurers = measurers
        self._provenance = provenance
        self._templates = templates
        self._journals = journals
        self._stop = stop
        self._clock = clock
        self._foreign = foreign
        self._done: queue.SimpleQueue[tuple[int, Job, Future[Measurement]]] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._under_way = [0] * len(measurers)
        self.measured = Measured()

    def run(
        self,
        jobs: Iterable[Job],
        on_progress: Callable[[Measured], None] = lambda measured: None,
    ) -> Measured:
        """Measure jobs in their order until all are done or `stop` says so.

        jobs are taken as devices come to want for work. Whatever is measured is on the disk when
        this returns or raises. Raises what a measurer's future raises, such as MeasureError when
        the device fails, and what taking a job raises.
        """
        waiting = iter(jobs)
        pending: list[tuple[Job, Measurement]] = []
        flushed = self._clock.now()
        try:
            while not self._stop():
                self._feed(waiting)
                if not any(self._under_way):
                    break
                self._clock.wait(self._wake, 0.1)
                self._wake.clear()
                self._collect(pending)
                now = self._clock.now()
                if pending and now - flushed >= _FLUSH_SECONDS:
                    self._write(pending)
                    flushed = now
                    on_progress(self.measured)
        finally:
            for measurer in self._measurers:
                measurer.cancel()
            self._write(pending)
        return self.measured

    def _feed(self, waiting: Iterator[Job]) -> None:
        for index, measurer in enumerate(self._measurers):
            if measurer.pipelined:
                room = _QUEUED - self._under_way[index]
            else:
                room = 0 if self._under_way[index] else _GROUP
            for job in islice(waiting, room):
                self._submit(index, measurer, job)

    def _submit(self, index: int, measurer: Measurer, job: Job) -> None:
        def done(future: Future[Measurement]) -> None:
            self._done.put((index, job, future))
            self._wake.set()

        self._under_way[index] += 1
        measurer.submit(job).add_done_callback(done)

    def _collect(self, pending: list[tuple[Job, Measurement]]) -> None:
        while not self._done.empty():
            index, job, future = self._done.get()
            self._under_way[index] -= 1
            if future.cancelled():
                continue
            found = future.result()
            if found.failure == UNTRIED:
                self.measured.untried += 1
            elif found.seconds is None and job in self._foreign:
                self.measured.foreign += 1
            else:
                pending.append((job, found))

    def _write(self, pending: list[tuple[Job, Measurement]]) -> None:
        """Have what was measured on the disk."""
        now = datetime.now(timezone.utc)
        by_workload = defaultdict(list)
        for job, found in pending:
            knobs = plain_config(job.config)
            template = self._templates[job.template]
            record = self._provenance.record(job.workload, template, knobs, found, now)
            by_workload[job.workload].append(record)
            if found.failure is None:
                self.measured.timed += 1
            else:
                self.measured.failures[found.failure] += 1
        pending.clear()
        for workload, records in by_workload.items():
            self._journals[workload].append(records)


def in_turn(jobs: Iterable[Iterable[Job]], at_once: int) -> Iterator[Job]:
    """Runs of jobs of so many workloads in turn; where one of them ends, the next begins.

    jobs: those of each workload, which are asked for when they are needed.
    """
    waiting = iter(jobs)
    begun: deque[Iterator[Job]] = deque()
    while True:
        begun.extend(map(iter, islice(waiting, at_once - len(begun))))
        if not begun:
            return
        own = begun.popleft()
        found = list(islice(own, _RUN))
        yield from found
        if len(found) == _RUN:
            begun.append(own)
