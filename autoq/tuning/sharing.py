"""Several tuners on one record file: what one measures, the others take over.

Before a candidate is measured it is claimed (`records.claims`); what another tuner has claimed or
recorded is left to it, and its records count as trials here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autoq.records.claims import Claim
from autoq.records.database import Conditions
from autoq.records.journal import Journal
from autoq.records.record import Device, Record, identity
from autoq.search.union import Candidate
from autoq.templates.workload_key import key
from autoq.tuning.task import Task

Chosen = tuple[Task, Candidate]

_COMPARISON = "comparison"


class Sharing:
    """One tuner's part in the record file.

    Args:
        journal: the file, whose earlier records the tasks know already.
        tasks: of this run.
        device: on which candidates are measured.
        conditions: which records of others count.
        trials: that all tasks may have together, whoever measures them.
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
        self._workloads = {self._claim_workload(task) for task in tasks}
        self._device = device
        self._conditions = conditions
        self._trials = trials
        self._left: dict[Claim, Chosen] = {}
        self._taken: set[Claim] = set()
        self._awaited: set[Claim] | None = None
        self._learned = self._refused = self._goes_on = False

    @property
    def elsewhere(self) -> int:
        """Trials of these tasks that other tuners had under way at the last look."""
        return sum(claim.candidate != _COMPARISON for claim in self._taken)

    @property
    def awaits(self) -> bool:
        """Whether to go on: others just recorded something, or are at something to wait for.

        Trials that they had under way become known to the search, or free when their tuner is
        killed; comparisons likewise.
        """
        return self._goes_on

    def admit(self, candidates: Iterable[Chosen]) -> list[Chosen]:
        """Those of pending candidates that are to be measured here; they are claimed.

        The others are pending no longer. Raises RecordError when the file cannot be written.
        """
        wanted = {self._claim(*chosen): chosen for chosen in candidates}
        if not wanted:
            return []
        self._left |= wanted
        admitted = self._look(wanted)
        for task, _ in wanted.values():
            task.pending -= 1
        for task, _ in admitted:
            task.pending += 1
        self._awaited = None
        return admitted

    def abandoned(self) -> list[Chosen]:
        """Candidates that were left to tuners which ended without measuring them.

        They are claimed and pending. A run that has nothing else to do asks for them, and ends when
        there are none and it no longer `awaits` others.
        """
        admitted = self._look(tuple(self._left))
        for task, _ in admitted:
            task.pending += 1
        awaited = self._taken if self._awaited is None else self._awaited & self._taken
        self._awaited = set(awaited) if self._done < self._trials else set()
        self._goes_on = self._learned or self._refused or bool(self._awaited)
        self._learned = self._refused = False
        return admitted

    def give_back(self, candidates: Iterable[Chosen]) -> None:
        """Let others measure candidates that were admitted and are not measured after all."""
        claims = [self._claim(*chosen) for chosen in candidates]
        if claims:
            with self._journal.turn() as turn:
                self._take_in(turn.news)
                turn.give_back(claims)

    def begin_comparison(self, task: Task) -> bool:
        """Whether a task's candidates may be compared now; others wait until `end_comparison`.

        The newest comparison of a workload stands in place of all others in the file, so each is
        begun with what those before it found.
        """
        claim = Claim(self._claim_workload(task), _COMPARISON)
        with self._journal.turn() as turn:
            self._take_in(turn.news)
            free = claim not in turn.claimed_elsewhere()
            turn.claim([claim] if free else [])
        self._refused |= not free
        return free

    def end_comparison(self, task: Task) -> None:
        """A comparison is recorded, or given up."""
        with self._journal.turn() as turn:
            self._take_in(turn.news)
            turn.give_back([Claim(self._claim_workload(task), _COMPARISON)])

    @property
    def _done(self) -> int:
        return sum(task.trials for task in self._tasks.values())

    def _look(self, wanted: Iterable[Claim]) -> list[Chosen]:
        """Take in what others did; those of the wanted that are free and the trials have room for.

        They are claimed.
        """
        with self._journal.turn() as turn:
            self._take_in(turn.news)
            everywhere = turn.claimed_elsewhere()
            self._taken = {claim for claim in everywhere if claim.workload in self._workloads}
            own = sum(claim.candidate != _COMPARISON for claim in turn.claimed())
            room = max(0, self._trials - self._done - own - self.elsewhere)
            free = [c for c in wanted if c in self._left and c not in everywhere][:room]
            turn.claim(free)
        return [self._left.pop(claim) for claim in free]

    def _take_in(self, news: Iterable[Record]) -> None:
        """Tell the tasks what others recorded."""
        by_task: dict[Task, list[Record]] = {}
        for record in news:
            self._left.pop(Claim.of(record.workload_key, record.identity), None)
            task = self._tasks.get(record.workload_key)
            if task is not None and self._conditions.objection(record) is None:
                by_task.setdefault(task, []).append(record)
        for task, records in by_task.items():
            task.resume(records, counted=True, live=True)
        self._learned |= bool(by_task)

    def _claim_workload(self, task: Task) -> str:
        return Claim.of(key(task.model.workload), "").workload

    def _claim(self, task: Task, candidate: Candidate) -> Claim:
        workload = key(task.model.workload)
        version = task.templates[candidate.template].version
        knobs = task.config_dict(candidate)
        return Claim.of(
            workload, identity(workload, candidate.template, version, knobs, self._device)
        )
