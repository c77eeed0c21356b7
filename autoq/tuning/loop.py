"""The tuning loop: ask, submit, record, tell, until a limit or a signal ends it."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from autoq.measure.job import UNTRIED, Job, Measurement
from autoq.measure.measurer import Measurer
from autoq.records.journal import Journal
from autoq.records.record import Device, Record
from autoq.search.union import Candidate
from autoq.templates.base import Template
from autoq.templates.workload import Workload
from autoq.tuning.asking import Asker
from autoq.tuning.scheduler import BATCH, Scheduler
from autoq.tuning.task import Task

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Provenance:
    """What every record of a run carries beside its measurement."""

    device: Device
    tvm: str
    autoq: str

    def record(
        self,
        workload: Workload,
        template: Template,
        config: Mapping[str, Any],
        found: Measurement,
        now: datetime,
    ) -> Record:
        """The record of a measured configuration; config holds its knobs by name."""
        return Record(
            workload=workload,
            template=template.name,
            template_version=template.version,
            config=config,
            device=self.device,
            time=now.isoformat(timespec="seconds").replace("+00:00", "Z"),
            seconds=found.seconds,
            failure=found.failure,
            message=found.message,
            repeats=found.repeats,
            tvm=self.tvm,
            autoq=self.autoq,
        )


@dataclass
class Loop:
    """Measures batches until the scheduler has no more, time is up, or `stop` says so.

    on_batch is called after each group of records is on the disk, with the tasks it belongs to.
    """

    scheduler: Scheduler
    asker: Asker
    measurer: Measurer
    journal: Journal
    provenance: Provenance
    on_batch: Callable[[Mapping[Task, list[Record]]], None]
    stop: Callable[[], bool]
    deadline: float | None = None
    _answers: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    _results: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    _wake: threading.Event = field(default_factory=threading.Event)
    _under_way: int = 0

    def run(self) -> str:
        """Why it ended: "trials", "time" or "interrupted"."""
        while True:
            reason = self._reason_to_stop()
            if reason is None:
                self._submit_answers()
                self._ask_for_batches()
                if not self._under_way:
                    return "trials"
                self._wait()
            self._collect()
            if reason is not None:
                return reason

    def _reason_to_stop(self) -> str | None:
        if self.stop():
            return "interrupted"
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return "time"
        return None

    def _ask_for_batches(self) -> None:
        # Batches in reserve keep all compilers busy while strategies think about others.
        reserve = BATCH * self.asker.parallel if self.measurer.pipelined else 0
        while self._under_way <= reserve:
            planned = self.scheduler.next_batch()
            if planned is None or self.stop():
                return
            self._ask(*planned)

    def _ask(self, task: Task, size: int) -> None:
        defaults, question = task.question(size)
        for candidate in defaults:
            self._submit(task, candidate)
        if question is None:
            return
        self._under_way += question.n

        def answered(future: Future[list[Candidate]]) -> None:
            self._answers.put((task, question, future))
            self._wake.set()

        self.asker.ask(question).add_done_callback(answered)

    def _submit(self, task: Task, candidate: Candidate) -> None:
        job = Job(task.model.workload, candidate.template, candidate.config)
        self._under_way += 1

        def done(future: Future[Measurement]) -> None:
            self._results.put((task, candidate, future))
            self._wake.set()

        self.measurer.submit(job).add_done_callback(done)

    def _wait(self) -> None:
        self._wake.wait(_POLL_SECONDS)
        self._wake.clear()

    def _submit_answers(self) -> None:
        for task, question, future in _drain(self._answers):
            answer = future.result()
            self._under_way -= question.n
            for candidate in task.answered(question, answer):
                self._submit(task, candidate)

    def _collect(self) -> None:
        """Record all results that are there, then raise what one of them raises."""
        found: list[tuple[Task, Candidate, Measurement]] = []
        fault: BaseException | None = None
        for task, candidate, future in _drain(self._results):
            self._under_way -= 1
            fault = fault or future.exception()
            if future.exception() is not None:
                continue
            if future.result().failure == UNTRIED:
                task.give_up()
            else:
                found.append((task, candidate, future.result()))
        self._record(found)
        if fault is not None:
            raise fault

    def _record(self, done: list[tuple[Task, Candidate, Measurement]]) -> None:
        if not done:
            return
        now = datetime.now(timezone.utc)
        by_task: dict[Task, list[Record]] = defaultdict(list)
        for task, candidate, found in done:
            template, knobs = task.templates[candidate.template], task.config_dict(candidate)
            record = self.provenance.record(task.model.workload, template, knobs, found, now)
            by_task[task].append(record)
        self.journal.append([record for records in by_task.values() for record in records])
        for task, records in by_task.items():
            task.tell(records)
            if not task.pending:
                task.end_batch()
        self.on_batch(by_task)


def _drain(items: queue.SimpleQueue[Any]) -> Iterator[Any]:
    while not items.empty():
        yield items.get()
