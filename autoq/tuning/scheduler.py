"""Which task gets the next batch: the one whose batch should save the model most time.

After Ansor's task scheduler (Zheng et al., OSDI 2020, section 6): the expected gain of a task is
the mean of what its last batch gained and of an optimistic guess that falls with its trials. Before
anything is searched, every task's untuned default is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoq.tuning.gain import gain_of_doubling
from autoq.tuning.task import Task

BATCH = 32
"""Candidates of a full batch (the paper's size)."""

# A strategy thinks as long about few candidates as about many, so batches are not smaller.
_LEAST_BATCH = 8

# Worth of a batch that is chosen before the results of the one under way are known.
_BLIND = 0.25


@dataclass(frozen=True)
class Limits:
    """Where tuning ends.

    trials: over all tasks, earlier runs included; per_task: of one task; early_stopping: trials
    of a task without a better one, after which it is left. None means no such limit. until_gain:
    share of the model's time that as many trials again must promise to save; 0 asks for none.
    """

    trials: int
    per_task: int | None = None
    early_stopping: int | None = None
    until_gain: float = 0.0


class Scheduler:
    """Shares the trials out among tasks.

    The untuned default of every task comes first, the most important task's before others.

    Args:
        tasks: all of them, resumed records already told.
        limits: where it ends.
        pipelined: whether a task may have a second batch under way, chosen before the first one's
            results are known.
        batch: candidates of a full batch.
        elsewhere: how many trials of these tasks other tuners of the record file have under way.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        limits: Limits,
        pipelined: bool,
        batch: int = BATCH,
        elsewhere: Callable[[], int] = lambda: 0,
    ) -> None:
        self.tasks = tasks
        self.batch = batch
        self._limits = limits
        self._pipelined = pipelined
        self._elsewhere = elsewhere
        self._by_importance = sorted(tasks, key=lambda task: task.importance, reverse=True)

    @property
    def left(self) -> int:
        """Trials that are neither done nor under way, here or elsewhere."""
        used = sum(task.trials + task.pending for task in self.tasks)
        return max(0, self._limits.trials - used - self._elsewhere())

    @property
    def ending(self) -> str:
        """Why there is no next batch: "gain" where too little is left to save, else "trials"."""
        untried = any(not task.exhausted for task in self.tasks)
        return "gain" if self.left and untried and self.saturated else "trials"

    @property
    def saturated(self) -> bool:
        """Whether too little is left to gain, by `Limits.until_gain`."""
        if not self._limits.until_gain:
            return False
        gain = spent = 0.0
        for task in self.tasks:
            gain += task.model.count * (
                0.0 if task.exhausted else gain_of_doubling(task.best_after)
            )
            fastest = task.contest.fastest
            if fastest is not None and fastest.seconds is not None:
                spent += task.model.count * fastest.seconds
        return gain < self._limits.until_gain * spent

    def next_batch(self, expected: int | None = None) -> tuple[Task, int] | None:
        """A task and the size of its next batch; None when nothing should start now.

        expected: trials for which time should be left; None: for all that the limits allow.
        """
        if not self.left or self.saturated:
            return None
        for task in self._by_importance:
            if task.default_untried and self._room(task):
                return task, 1
        free = [task for task in self.tasks if self._open(task)]
        if not free:
            return None
        task = max(free, key=self._expected_gain)
        trials = self.left if expected is None else min(self.left, expected)
        return task, min(self._size(task, trials), self.left, self._room(task))

    def _size(self, task: Task, trials: int) -> int:
        """Few trials are shared out in small batches, so that they reach several tasks."""
        share = trials // max(1, len(self.tasks))
        return min(self.batch, max(share, _LEAST_BATCH))

    def _open(self, task: Task) -> bool:
        # The strategy waits for the first times of all templates.
        ahead = self.batch if self._pipelined and task.trials >= len(task.templates) else 0
        if task.pending > ahead and not task.openings_left:
            return False
        limit = self._limits.early_stopping
        stopped = limit is not None and task.trials and task.since_best >= limit
        return not task.exhausted and not stopped and self._room(task) > 0

    def _room(self, task: Task) -> int:
        if self._limits.per_task is None:
            return self.batch
        return max(0, self._limits.per_task - task.trials - task.pending)

    def _expected_gain(self, task: Task) -> float:
        """Seconds of the whole model that a batch should save."""
        # In batches of 32, a task that is far from its roofline would be left too late.
        tries = task.trials / _LEAST_BATCH
        fastest = task.contest.fastest
        if fastest is None or fastest.seconds is None:
            # Nothing worked yet: as urgent as can be, less so with every further one.
            return 1.0 / (1.0 + tries) if task.trials else task.importance
        possible = max(0.0, fastest.seconds - task.floor_seconds) / (1.0 + tries)
        gained = task.last_gain
        gain = task.model.count * (possible if gained is None else (gained + possible) / 2)
        return gain * _BLIND if task.pending else gain
