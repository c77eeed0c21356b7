"""One run of `tune`: the loop with its limits, its time and its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from autoq.measure.measurer import Measurer
from autoq.process.interrupt import StopOnSignal
from autoq.records.journal import Journal
from autoq.records.record import Record
from autoq.report.events import Event, TaskRow, TrialsMeasured, TuneStarted, TuneSummary
from autoq.templates.target import Target
from autoq.tuning.asking import Asker
from autoq.tuning.loop import Loop
from autoq.tuning.options import TuneOptions, comparison_timing
from autoq.tuning.pacing import Pacing
from autoq.tuning.prepare import Resumed
from autoq.tuning.provenance import Provenance
from autoq.tuning.recording import Recording
from autoq.tuning.scheduler import Limits, Scheduler
from autoq.tuning.sharing import Sharing
from autoq.tuning.task import Task

OnEvent = Callable[[Event], None]


class Run:
    """Tasks that know their earlier records, ready to be tuned in the time of `pacing`."""

    def __init__(
        self,
        tasks: Sequence[Task],
        options: TuneOptions,
        journal: Journal,
        sharing: Sharing,
        known: Resumed,
        on_event: OnEvent,
        pacing: Pacing,
    ) -> None:
        self._tasks = tasks
        self._options = options
        self._journal = journal
        self._sharing = sharing
        self._known = known
        self._on_event = on_event
        self._pacing = pacing
        self._began = options.clock.now()
        self._measured = 0

    def run(
        self, asker: Asker, measurer: Measurer, provenance: Provenance, target: Target
    ) -> TuneSummary:
        """Measure until a limit or a signal ends it."""
        options = self._options
        self._on_event(
            TuneStarted(provenance.device.name, len(self._tasks), options.trials,
                        self._known.counted, self._known.reused, self._known.skipped)
        )  # fmt: skip
        limits = Limits(
            options.trials, options.trials_per_task, options.early_stopping, options.until_gain
        )
        with StopOnSignal() as signals:
            loop = Loop(
                Scheduler(
                    self._tasks,
                    limits,
                    measurer.pipelined,
                    elsewhere=lambda: self._sharing.elsewhere,
                ),
                asker,
                measurer,
                Recording(
                    self._journal,
                    provenance,
                    self._measured_batch,
                    lambda task: self._tell(task, compared=True),
                ),
                self._sharing,
                lambda: signals.requested,
                self._pacing,
                comparison_timing(options, target.kind),
            )
            reason = loop.run()
        summary = TuneSummary(
            output=str(self._journal.path),
            device=provenance.device.name,
            rows=tuple(task_row(task) for task in self._tasks),
            measured=self._measured,
            elapsed_seconds=options.clock.now() - self._pacing.started,
            reason=reason,
            skipped=self._known.skipped,
        )
        self._on_event(summary)
        return summary

    def _measured_batch(self, records: Mapping[Task, list[Record]]) -> None:
        self._measured += sum(len(found) for found in records.values())
        for task in records:
            self._tell(task)

    def _tell(self, task: Task, compared: bool = False) -> None:
        options, now = self._options, self._options.clock.now()
        done = sum(task.trials for task in self._tasks)
        left = None
        if self._measured:
            left = (options.trials - done) * (now - self._began) / self._measured
        if options.time_budget is not None:
            until = max(0.0, self._pacing.started + options.time_budget - now)
            left = until if left is None else min(left, until)
        failures = sum((task.failures for task in self._tasks), Counter())
        position = self._tasks.index(task) + 1
        self._on_event(
            TrialsMeasured(task_row(task), position, len(self._tasks), done, options.trials,
                           failures, now - self._pacing.started, left, compared)
        )  # fmt: skip


def task_row(task: Task) -> TaskRow:
    """What is known of a task now."""
    best, seconds = task.best, task.best_seconds
    share = task.floor_seconds / seconds if seconds and task.floor_seconds else None
    return TaskRow(
        index=task.index,
        workload=task.model.workload,
        count=task.model.count,
        nodes=task.model.nodes,
        trials=task.trials,
        seconds=seconds,
        template=best.template if best else "",
        config=best.config if best else {},
        roofline_share=share,
        failures=Counter(task.failures),
        default_seconds=task.contest.default_seconds,
        untuned=task.contest.default_is_best,
        unsettled=bool(task.contest.entrants()),
    )
