"""Which task gets the next batch: the one whose batch should save the model most time.

After Ansor's task scheduler (Zheng et al., OSDI 2020, section 6): the expected gain of a task is
the mean of what its last batch gained and of an optimistic guess that falls with its trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from autoq.tuning.task import Task

BATCH = 32
"""Candidates of a full batch (the paper's size)."""

# Worth of a batch that is chosen before the results of the one under way are known.
_BLIND = 0.25


@dataclass(frozen=True)
class Limits:
    """Where tuning ends.

    trials: over all tasks, earlier runs included; per_task: of one task; early_stopping: trials
    of a task without a better one, after which it is left. None means no such limit.
    """

    trials: int
    per_task: int | None = None
    early_stopping: int | None = None


class Scheduler:
    """Shares the trials out among tasks.

    Args:
        tasks: all of them, resumed records already told.
        limits: where it ends.
        pipelined: whether a task may have a second batch under way, chosen before the first one's
            results are known.
        batch: candidates of a full batch.
    """

    def __init__(
        self, tasks: Sequence[Task], limits: Limits, pipelined: bool, batch: int = BATCH
    ) -> None:
        self._tasks = tasks
        self._limits = limits
        self._pipelined = pipelined
        self._batch = batch
        # The first round gives every task its share, when trials are few.
        self._first = min(self._batch, max(1, limits.trials // max(1, len(tasks))))

    @property
    def left(self) -> int:
        """Trials that are neither done nor under way."""
        used = sum(task.trials + task.pending for task in self._tasks)
        return max(0, self._limits.trials - used)

    def next_batch(self) -> tuple[Task, int] | None:
        """A task and the size of its next batch; None when nothing should start now."""
        free = [task for task in self._tasks if self._open(task)]
        if not free or not self.left:
            return None
        task = max(free, key=self._expected_gain)
        size = self._batch if task.trials else self._first
        return task, min(size, self.left, self._room(task))

    def _open(self, task: Task) -> bool:
        if task.pending > (self._batch if self._pipelined else 0):
            return False
        limit = self._limits.early_stopping
        stopped = limit is not None and task.trials and task.since_best >= limit
        return not task.exhausted and not stopped and self._room(task) > 0

    def _room(self, task: Task) -> int:
        if self._limits.per_task is None:
            return self._batch
        return max(0, self._limits.per_task - task.trials - task.pending)

    def _expected_gain(self, task: Task) -> float:
        """Seconds of the whole model that a batch should save."""
        if not task.trials:
            return 0.0 if task.pending else inf
        batches = task.trials / self._batch
        best = task.best_seconds
        if best is None:
            # Nothing worked yet: as urgent as a first batch, less so with every further one.
            return 1.0 / (1.0 + batches)
        possible = max(0.0, best - task.floor_seconds) / (1.0 + batches)
        gain = task.model.count * (task.last_gain + possible) / 2
        return gain * _BLIND if task.pending else gain
