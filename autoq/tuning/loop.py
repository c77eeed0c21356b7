"""The tuning loop: ask, submit, record, tell, until a limit or a signal ends it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from autoq.measure.job import UNTRIED, Job, Measurement, Timing
from autoq.measure.measurer import Measurer
from autoq.search.union import Candidate
from autoq.tuning.asking import Asker, Question
from autoq.tuning.comparing import Comparisons
from autoq.tuning.pacing import Pacing
from autoq.tuning.recording import Recording
from autoq.tuning.scheduler import Scheduler
from autoq.tuning.sharing import Sharing
from autoq.tuning.task import Task

_POLL_SECONDS = 0.2

# Candidates of a group that teaches what trials take here.
_FIRST_GROUP = 4
# Of the time that is left, so much is filled with trials at once: they may take longer.
_CAUTION = 0.8
# Trials are given up so many seconds before the comparisons have to begin.
_LATEST = 0.3


@dataclass
class Loop:
    """Measures batches until the scheduler has no more, time is up, or `stop` says so.

    comparison says how candidates are timed in turn with their default; None compares nothing.
    """

    scheduler: Scheduler
    asker: Asker
    measurer: Measurer
    recording: Recording
    sharing: Sharing
    stop: Callable[[], bool]
    pacing: Pacing = field(default_factory=Pacing)
    comparison: Timing | None = None

    def __post_init__(self) -> None:
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._compared: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._questions: dict[int, tuple[Task, Question]] = {}
        self._chosen: list[tuple[Task, Candidate]] = []
        self._under_way = self._found = 0
        self._comparing = False
        self._out_of_time = False
        self._since = self.pacing.clock.now()
        self._comparisons = Comparisons(self.scheduler.tasks, self.pacing, self.comparison)

    def run(self) -> str:
        """Why it ended: "trials", "gain", "time" or "interrupted"."""
        while True:
            if self.stop():
                return self._ended("interrupted")
            if self.pacing.left <= 0:
                return self._ended("time")
            self._start()
            self._submit_answers()
            # Others may have taken all that was asked for: only now is that known.
            if not self._under_way and not self._comparing:
                self._compare(self._comparisons.open)
            idle = not self._under_way and not self._comparing
            if idle and (self._out_of_time or not self._others_leave_work()):
                late = self._out_of_time or self._comparisons.open
                return "time" if late else self.scheduler.ending
            self._wait()
            self._collect()

    def _ended(self, reason: str) -> str:
        self._collect()
        return reason

    def _start(self) -> None:
        """Start what is next: comparisons that are due, or a group of trials."""
        self._drop_what_comes_too_late()
        if (self._under_way or self._comparing) and not self.measurer.pipelined:
            return
        if not self._comparing:
            self._compare(self._comparisons.due)
        if self.measurer.pipelined or not self._comparing:
            self._ask_for_batches()

    def _drop_what_comes_too_late(self) -> None:
        """Give up trials under way for which comparisons have no time left."""
        reserve = self._comparisons.reserve
        if not (self._under_way and reserve and self.pacing.left < reserve + _LATEST):
            return
        self.measurer.cancel()
        for task, question in self._questions.values():
            task.give_up(question.n)
            self._under_way -= question.n
        self._questions.clear()

    def _ask_for_batches(self) -> None:
        most = self._group_size()
        while self._under_way < most:
            planned = self.scheduler.next_batch(self._affordable(None))
            if planned is None or self.stop():
                self._out_of_time = False
                return
            task, size = planned
            expected = self._affordable(task)
            if expected == 0:
                self._out_of_time = True
                return
            if not self._under_way:
                self._since = self.pacing.clock.now()
            self._ask(task, size if expected is None else min(size, expected))
            if self.measurer.pipelined:
                self._submit_answers()  # Compilers need not wait for what else is asked.

    def _group_size(self) -> int:
        """Candidates that may be under way before more are asked for."""
        if self.measurer.pipelined:
            # Batches in reserve keep all compilers busy while strategies think about others.
            return self.scheduler.batch * (1 + self.asker.parallel)
        if not self.pacing.measured:
            return _FIRST_GROUP
        # A group is timed when all of it is compiled: large ones would be all or nothing.
        expected = self._affordable(None)
        return (
            self.scheduler.batch
            if expected is None
            else max(_FIRST_GROUP, min(self.scheduler.batch, expected // 2))
        )

    def _affordable(self, task: Task | None) -> int | None:
        """Trials that fit beside comparisons, that of `task` included; None: any number."""
        seconds = self.pacing.left - self._comparisons.reserve_with(task)
        trials = self.pacing.trials_in(_CAUTION * seconds)
        return None if trials is None else max(0, trials - self._under_way)

    def _ask(self, task: Task, size: int) -> None:
        defaults, question = task.question(size)
        self._under_way += question.n if question is not None else len(defaults)
        for candidate in defaults:
            self._chosen.append((task, candidate))
        if question is None:
            return
        self._questions[id(question)] = task, question

        def answered(future: Future[list[Candidate]]) -> None:
            self._answers.put((question, future))
            self._wake.set()

        self.asker.ask(question).add_done_callback(answered)

    def _submit_answers(self) -> None:
        for question, future in _drain(self._answers):
            answer = future.result()
            task, _ = self._questions.pop(id(question), (None, None))
            if task is not None:
                candidates = task.answered(question, answer)
                self._under_way -= question.n - len(candidates)
                self._chosen += [(task, candidate) for candidate in candidates]
        # A group is complete before any of it is compiled, so that nobody thinks while it is timed.
        chosen, self._chosen = self._chosen, []
        admitted = self.sharing.admit(chosen)
        self._under_way -= len(chosen) - len(admitted)
        for task, candidate in admitted:
            self._submit(task, candidate)

    def _others_leave_work(self) -> bool:
        """Take over what other tuners of the file left; whether there is any, or may yet be."""
        abandoned = self.sharing.abandoned()
        self._under_way += len(abandoned)
        for task, candidate in abandoned:
            self._submit(task, candidate)
        return bool(abandoned) or self.sharing.awaits

    def _submit(self, task: Task, candidate: Candidate) -> None:
        def done(future: Future[Measurement]) -> None:
            self._results.put((task, candidate, future))
            self._wake.set()

        self.measurer.submit(_job(task, candidate)).add_done_callback(done)

    def _compare(self, tasks: Sequence[Task]) -> None:
        """Begin the first comparison for which there is time."""
        timing = self.comparison
        if timing is None:
            return
        for task in tasks:
            if self._comparisons.fits(task) and self.sharing.begin_comparison(task):
                candidates = self._comparisons.take(task)
                if candidates:
                    break
                self.sharing.end_comparison(task)  # Others settled it meanwhile.
        else:
            return
        began, alone = self.pacing.clock.now(), not self._under_way
        self._comparing = True

        def done(future: Future[list[Measurement] | None]) -> None:
            self._compared.put((task, candidates, began if alone else None, future))
            self._wake.set()

        jobs = [_job(task, candidate) for candidate in candidates]
        self.measurer.compare(jobs, timing).add_done_callback(done)

    def _wait(self) -> None:
        self.pacing.clock.wait(self._wake, min(_POLL_SECONDS, max(0.0, self.pacing.left)))
        self._wake.clear()

    def _collect(self) -> None:
        """Record all results that are there, then raise what one of them raises."""
        found: list[tuple[Task, Candidate, Measurement]] = []
        untried: list[tuple[Task, Candidate]] = []
        fault: BaseException | None = None
        for task, candidate, future in _drain(self._results):
            self._under_way -= 1
            if not future.cancelled() and future.exception() is not None:
                fault = fault or future.exception()
            elif future.cancelled() or future.result().failure == UNTRIED:
                task.give_up()
                untried.append((task, candidate))
            else:
                found.append((task, candidate, future.result()))
        self.recording.trials(found)
        self.sharing.give_back(untried)
        if fault is not None:
            raise fault
        self._note_pace(len(found))
        for task, candidates, began, future in _drain(self._compared):
            self._comparing = False
            if began is not None:
                self.pacing.entrants.note(len(candidates), self.pacing.clock.now() - began)
            if not future.cancelled():
                self.recording.comparison(task, candidates, future.result())
            self.sharing.end_comparison(task)

    def _note_pace(self, found: int) -> None:
        """Learn what trials take: from whole groups where nothing is timed while compiling."""
        self._found += found
        if self._found and (self.measurer.pipelined or not self._under_way):
            now = self.pacing.clock.now()
            self.pacing.trials.note(self._found, now - self._since)
            self._found, self._since = 0, now


def _job(task: Task, candidate: Candidate) -> Job:
    return Job(task.model.workload, candidate.template, candidate.config)


def _drain(items: queue.SimpleQueue[Any]) -> Iterator[Any]:
    while not items.empty():
        yield items.get()
