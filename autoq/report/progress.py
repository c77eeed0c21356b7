"""Progress of a tuning run: a live display on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TextIO

from autoq.report.events import Event, Notice, TrialsMeasured, TuneStarted, TuneSummary
from autoq.report.tables import summary_table
from autoq.report.text import clock, counted, counts, duration, share, tera

_SECONDS_BETWEEN_LINES = 5.0


class Progress(Protocol):
    """Takes the events of one run; leaving its context ends the display."""

    def __enter__(self) -> Progress: ...

    def __exit__(self, *raised: object) -> None: ...

    def __call__(self, event: Event) -> None: ...


def progress(stream: TextIO) -> Progress:
    """The live display when `stream` is a terminal, else plain lines."""
    return LiveProgress(stream) if stream.isatty() else PlainProgress(stream)


def started_line(event: TuneStarted) -> str:
    """What a run begins with, in one line."""
    text = (
        f"tuning {counted(event.tasks, 'task')} on {event.device}: {counted(event.trials, 'trial')}"
    )
    if event.resumed:
        text += f", {event.resumed} of them in the output already"
    if event.reused:
        text += f"; {counted(event.reused, 'record')} of other files known"
    if event.skipped:
        text += f"; records not used: {counts(event.skipped)}"
    return text


def task_line(event: TrialsMeasured) -> str:
    """The state of the task that was measured last, in one line."""
    task = event.task
    parts = [counted(task.trials, "trial"), f"best {duration(task.seconds)}"]
    if event.compared:
        kept = "kept" if task.untuned else duration(task.default_seconds)
        parts.append(f"compared in turn with the untuned default ({kept})")
    if task.tops is not None:
        parts.append(f"{tera(task.tops)} TOPS")
    if task.roofline_share is not None:
        parts.append(f"{share(task.roofline_share)} of roofline")
    where = f"task {event.position} of {event.tasks} (#{task.index} {task.workload})"
    return f"{where}: {', '.join(parts)}"


def run_line(event: TrialsMeasured) -> str:
    """The state of the whole run, in one line."""
    return (
        f"{event.done}/{event.trials} trials, failures: {counts(event.failures)}, "
        f"{clock(event.elapsed_seconds)} gone, {clock(event.seconds_left)} left"
    )


class PlainProgress:
    """One line every few seconds at most."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._last_line = -_SECONDS_BETWEEN_LINES

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stream.flush()

    def __call__(self, event: Event) -> None:
        """Write what the event says."""
        if isinstance(event, TuneStarted):
            self._write(started_line(event))
        elif isinstance(event, TuneSummary):
            self._write(summary_table(event))
        elif isinstance(event, Notice):
            self._write(event.text)
        elif self._due(event):
            self._write(f"{task_line(event)}; {run_line(event)}")

    def _due(self, event: TrialsMeasured) -> bool:
        now = self._clock()
        if now - self._last_line < _SECONDS_BETWEEN_LINES and event.done < event.trials:
            return False
        self._last_line = now
        return True

    def _write(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


class LiveProgress:
    """A bar over all trials with the current task below, redrawn in place by rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = Console(file=stream)
        self._bar = Progress(
            BarColumn(bar_width=30),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            transient=True,
        )
        self._id = self._bar.add_task("starting", total=None)

    def __enter__(self) -> LiveProgress:
        self._bar.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Redraw with what the event says."""
        if isinstance(event, TrialsMeasured):
            text = f"{run_line(event)}\n{task_line(event)}"
            self._bar.update(self._id, total=event.trials, completed=event.done, description=text)
            return
        if isinstance(event, TuneStarted):
            self._bar.update(self._id, total=event.trials, completed=event.resumed)
            self._print(started_line(event))
            return
        if isinstance(event, Notice):
            self._print(event.text)
            return
        self._bar.stop()
        self._print(summary_table(event))

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
