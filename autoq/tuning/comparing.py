"""Comparisons: the best candidates of a task and its untuned default, timed in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autoq.measure.job import Timing
from autoq.search.union import Candidate
from autoq.tuning.pacing import Pacing
from autoq.tuning.task import Task

# A task with so many trials since its last comparison is compared before the run ends, so that
# little is lost when it is interrupted.
_SHARE_OF_TRIALS = 64
# Comparisons may take so many times what the last ones did.
_MARGIN = 1.1


@dataclass
class Comparisons:
    """Which task is to be compared next; timing None: none at all."""

    tasks: Sequence[Task]
    pacing: Pacing
    timing: Timing | None = None
    _compared_at: dict[Task, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._compared_at = {task: task.trials for task in self.tasks}

    @property
    def open(self) -> list[Task]:
        """Tasks with an unsettled claim, those first where most seconds hang on it."""
        if self.timing is None:
            return []
        dirty = [task for task in self.tasks if task.contest.entrants()]
        return sorted(dirty, key=_at_stake, reverse=True)

    @property
    def due(self) -> list[Task]:
        """Open ones whose share of trials is over."""
        return [
            task for task in self.open if task.trials - self._compared_at[task] >= _SHARE_OF_TRIALS
        ]

    def cost(self, task: Task) -> float:
        """Seconds that the comparison of a task takes, or would take if it opened."""
        if self.timing is None:
            return 0.0
        return max(2, len(task.contest.entrants())) * self.pacing.entrants.each

    def fits(self, task: Task) -> bool:
        """Whether there should be time for the comparison of a task, if it is a quick one."""
        return self.cost(task) <= _MARGIN * self.pacing.left

    @property
    def reserve(self) -> float:
        """Seconds that all open comparisons take."""
        return sum(self.cost(task) for task in self.open)

    def reserve_with(self, task: Task | None) -> float:
        """The same with those that trials under way may open, and trials of one more task."""
        likely = {t for t in self.tasks if t.pending > (0 if t.trials else 1)}
        likely |= {task} if task is not None and task.trials else set()
        return _MARGIN * sum(self.cost(each) for each in likely | {*self.open})

    def take(self, task: Task) -> list[Candidate]:
        """The candidates of a task's comparison, which counts as made."""
        self._compared_at[task] = task.trials
        return task.entrants()


def _at_stake(task: Task) -> float:
    """Seconds of the model between a task's fastest claim and what stands without it."""
    fastest, standing = task.contest.fastest, task.contest.standing_seconds
    if fastest is None or fastest.seconds is None or standing is None:
        return task.importance
    return task.model.count * max(0.0, standing - fastest.seconds)
