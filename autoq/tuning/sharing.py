"""Several tuners on one record file: what one measures, the others take over.

Before a candidate is measured it is claimed (`records.claims`); what another tuner has claimed or
recorded is left to it, and its records count as trials here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autoq.records.claims import Claim
from autoq.records.database import Conditions
from autoq.records.journal import Journal, Turn
from autoq.records.record import Device, Record, identity
from autoq.search.union import Candidate
from autoq.templates.workload import key
from autoq.tuning.task import Task


class Sharing:
    """One tuner's part in the record file.

    Args:
        journal: the file, whose earlier records the tasks know already.
        tasks: of this run.
        device: on which candidates are measured.
        conditions: which records of others count.
        trials: that all tasks may have together, whoever measures them.

    Attributes:
        elsewhere: trials of these tasks that other tuners had under way at the last look.
    """

    def __init__(
        self,
        journal: Journal,
        tasks: Sequence[Task],
        device: Device,
        conditions: Conditions,
        trials: int,
    ) -> None:
        self._journal = journal
        self._tasks = {key(task.model.workload): task for task in tasks}
        self._workloads = {Claim.of(workload, "").workload for workload in self._tasks}
        self._device = device
        self._conditions = conditions
        self._trials = trials
        self._left: dict[Claim, tuple[Task, Candidate]] = {}
        self.elsewhere = 0

    def admit(self, task: Task, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those of a task's pending candidates that are to be measured here; they are claimed.

        The others are pending no longer. Raises RecordError when the file cannot be written.
        """
        wanted = {self._claim(task, candidate): candidate for candidate in candidates}
        with self._journal.turn() as turn:
            self._left |= {claim: (task, candidate) for claim, candidate in wanted.items()}
            chosen = self._claimed(turn, wanted)
        task.pending -= len(candidates) - len(chosen)
        return [candidate for _, candidate in chosen]

    def abandoned(self) -> list[tuple[Task, Candidate]]:
        """Candidates that were left to tuners which ended without measuring them.

        They are claimed and pending. A run that has nothing else to do measures them, and ends
        when there are none and nothing is `elsewhere`.
        """
        if not self._left:
            return []
        with self._journal.turn() as turn:
            chosen = self._claimed(turn, tuple(self._left))
        for task, _ in chosen:
            task.pending += 1
        return chosen

    def _claimed(self, turn: Turn, wanted: Iterable[Claim]) -> list[tuple[Task, Candidate]]:
        """Those of the wanted candidates that are free and that the trials have room for."""
        self._take_in(turn.news)
        taken = turn.claimed_elsewhere()
        self.elsewhere = sum(claim.workload in self._workloads for claim in taken)
        done = sum(task.trials for task in self._tasks.values())
        room = max(0, self._trials - done - len(turn.claimed()) - self.elsewhere)
        free = [claim for claim in wanted if claim in self._left and claim not in taken][:room]
        turn.claim(free)
        return [self._left.pop(claim) for claim in free]

    def _take_in(self, news: Iterable[Record]) -> None:
        by_task: dict[Task, list[Record]] = {}
        for record in news:
            self._left.pop(Claim.of(record.workload_key, record.identity), None)
            task = self._tasks.get(record.workload_key)
            if task is not None and self._conditions.objection(record) is None:
                by_task.setdefault(task, []).append(record)
        for task, records in by_task.items():
            task.resume(records, counted=True)

    def _claim(self, task: Task, candidate: Candidate) -> Claim:
        workload = key(task.model.workload)
        version = task.templates[candidate.template].version
        knobs = task.config_dict(candidate)
        return Claim.of(
            workload, identity(workload, candidate.template, version, knobs, self._device)
        )
