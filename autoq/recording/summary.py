"""What a recording came to, as text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from autoq.recording.measuring import Measured
from autoq.recording.output import Written
from autoq.report.text import counts, duration


@dataclass(frozen=True)
class Recorded:
    """What a recording came to: what was measured now, and the spaces as they are."""

    measured: Measured
    written: tuple[Written, ...]
    interrupted: bool


def spaces_table(recorded: Recorded) -> str:
    """A line for each space, then what was measured in this run."""
    lines = []
    for written in recorded.written:
        trials = written.space.trials
        failures = Counter(trial.failure for trial in trials if trial.failure is not None)
        lines.append(
            f"{written.space.workload}: {len(trials)} configurations, "
            f"best {duration(written.space.best_seconds)}, failures: {counts(failures) or 'none'}; "
            f"{written.path} ({written.size / 1024:.0f} KiB)"
        )
    measured = recorded.measured
    text = f"{measured.trials} measured"
    if measured.foreign:
        text += (
            f"; {measured.foreign} failures not recorded, since the source code of their templates "
            "has changed since they were compiled"
        )
    if measured.untried:
        text += f"; {measured.untried} could not be tried"
    return "\n".join([*lines, text])
