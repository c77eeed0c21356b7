"""From measurements to records: on the disk first, then known to their tasks, then shown."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from autoq.measure.job import Measurement
from autoq.records.journal import Journal
from autoq.records.record import Record
from autoq.search.union import Candidate
from autoq.tuning.provenance import Provenance
from autoq.tuning.task import Task


@dataclass(frozen=True)
class Recording:
    """Where the measurements of a run go.

    on_batch is called with the records of each group of trials by task, on_compared with each
    task that was compared.
    """

    journal: Journal
    provenance: Provenance
    on_batch: Callable[[Mapping[Task, list[Record]]], None] = lambda records: None
    on_compared: Callable[[Task], None] = lambda task: None

    def trials(self, done: Sequence[tuple[Task, Candidate, Measurement]]) -> None:
        """Record candidates that were measured alone."""
        if not done:
            return
        now = datetime.now(timezone.utc)
        by_task: dict[Task, list[Record]] = defaultdict(list)
        for task, candidate, found in done:
            by_task[task].append(self._made(task, candidate, found, now))
        self.journal.append([record for records in by_task.values() for record in records])
        for task, records in by_task.items():
            task.tell(records)
            if not task.pending:
                task.end_batch()
        self.on_batch(by_task)

    def comparison(
        self, task: Task, candidates: Sequence[Candidate], found: Sequence[Measurement] | None
    ) -> None:
        """Record a comparison; one that could not be made (None) gives its task's claims up."""
        if found is None:
            task.contest.fail()
            return
        now = datetime.now(timezone.utc)
        records = [
            dataclasses.replace(self._made(task, *pair, now), confirmed=True)
            for pair in zip(candidates, found, strict=True)
        ]
        self.journal.append(records)
        task.settle(records)
        self.on_compared(task)

    def _made(self, task: Task, candidate: Candidate, found: Measurement, now: datetime) -> Record:
        template, knobs = task.templates[candidate.template], task.config_dict(candidate)
        return self.provenance.record(task.model.workload, template, knobs, found, now)
