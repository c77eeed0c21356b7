"""What happens while tuning, as data: for a progress display, a log or a notebook."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from autoq.templates.workload import Workload


@dataclass(frozen=True)
class TaskRow:
    """One task: its workload and the best that is known of it.

    seconds is None without a successful trial; roofline_share is None where the target's rates
    are unknown; `source` names where the best record came from, "" when this run measured it.
    default_seconds is the time of the untuned default; untuned: whether that is the best;
    unsettled: whether a faster trial was not compared in turn with the default yet.
    """

    index: int
    workload: Workload
    count: int
    nodes: tuple[str, ...]
    trials: int = 0
    seconds: float | None = None
    template: str = ""
    config: Mapping[str, object] = field(default_factory=dict)
    roofline_share: float | None = None
    failures: Counter[str] = field(default_factory=Counter)
    source: str = ""
    default_seconds: float | None = None
    untuned: bool = False
    unsettled: bool = False

    @property
    def tops(self) -> float | None:
        """10**12 operations a second of the best."""
        return self.workload.operations / self.seconds / 1e12 if self.seconds else None


@dataclass(frozen=True)
class TuneStarted:
    """Tuning begins: what was found in earlier records, and what is to be done.

    trials is the total, of which `resumed` are in the output already; reused come from other
    record files; skipped counts records that do not fit, by reason.
    """

    device: str
    tasks: int
    trials: int
    resumed: int
    reused: int
    skipped: Mapping[str, int]


@dataclass(frozen=True)
class TrialsMeasured:
    """Trials of one task are measured and on the disk; with `compared`, a comparison is.

    position counts the run's tasks from 1; done counts all trials so far; failures is over all
    tasks; seconds_left estimates the rest of the run, None before the first trial.
    """

    task: TaskRow
    position: int
    tasks: int
    done: int
    trials: int
    failures: Counter[str]
    elapsed_seconds: float
    seconds_left: float | None
    compared: bool = False


@dataclass(frozen=True)
class TuneSummary:
    """How tuning ended.

    reason: "trials" (limits reached, or every configuration tried), "gain" (too little is left to
    save), "time" or "interrupted";
    measured: trials of this run.
    """

    output: str
    device: str
    rows: tuple[TaskRow, ...]
    measured: int
    elapsed_seconds: float
    reason: str
    skipped: Mapping[str, int]

    @property
    def failures(self) -> Counter[str]:
        """Failed trials of all tasks by kind."""
        return sum((row.failures for row in self.rows), Counter())

    @property
    def total_seconds(self) -> float:
        """Time of all measured kernels of the model, each as often as it occurs.

        A workload that was tuned in several layouts counts by the fastest of them.
        """
        seconds: dict[Workload, float] = {}
        for row in self.rows:
            if row.seconds is not None:
                plain = row.workload.in_nhwc
                seconds[plain] = min(seconds.get(plain, math.inf), row.count * row.seconds)
        return sum(seconds.values())

    @property
    def untuned_seconds(self) -> float | None:
        """The same with untuned defaults, in NHWC; None unless all of them are measured."""
        plain = [row for row in self.rows if row.workload.in_nhwc == row.workload]
        known = [row.count * row.default_seconds for row in plain if row.default_seconds]
        measured = sum(row.seconds is not None for row in plain)
        return sum(known) if known and len(known) == measured else None


@dataclass(frozen=True)
class Notice:
    """Something that the user should know of, in one line; tuning goes on."""

    text: str


Event = TuneStarted | TrialsMeasured | Notice | TuneSummary
