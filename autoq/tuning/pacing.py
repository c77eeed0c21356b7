"""How far the time of a run reaches: for so many trials, so many comparisons, and a clean end."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from autoq.tuning.clock import Clock, MonotonicClock

# What is assumed before anything is measured: of a trial, and of one candidate of a comparison.
_TRIAL_SECONDS, _ENTRANT_SECONDS = 0.25, 0.1
_ASSUMED_TRIALS, _ASSUMED_ENTRANTS = 1.0, 2.0

# After so many trials or entrants, older ones count half.
_HALF_LIFE = 48.0

# Ending the children and the process, and the most of a budget that is kept for it. The process
# ends 0.4 s after its last line on an idle EPYC core, 0.9 s on a busy one, most of it inside TVM.
_CLOSING_SECONDS, _CLOSING_SHARE = 1.0, 0.06


@dataclass
class Rate:
    """Seconds of one thing, the latest ones counting most."""

    seconds: float
    count: float
    noted: bool = False

    def note(self, count: int, seconds: float) -> None:
        """Take in that so many took so long together."""
        if count:
            fade = 0.5 ** (count / _HALF_LIFE)
            self.seconds = fade * self.seconds + seconds
            self.count = fade * self.count + count
            self.noted = True

    @property
    def each(self) -> float:
        return self.seconds / self.count


def _trials() -> Rate:
    return Rate(_TRIAL_SECONDS * _ASSUMED_TRIALS, _ASSUMED_TRIALS)


def _entrants() -> Rate:
    return Rate(_ENTRANT_SECONDS * _ASSUMED_ENTRANTS, _ASSUMED_ENTRANTS)


@dataclass
class Pacing:
    """The time that is left, and what things have taken so far.

    started is an instant of `clock` from which `budget` seconds count; None: no limit.
    """

    clock: Clock = field(default_factory=MonotonicClock)
    started: float = 0.0
    budget: float | None = None
    trials: Rate = field(default_factory=_trials)
    entrants: Rate = field(default_factory=_entrants)

    @property
    def measured(self) -> bool:
        """Whether trials were timed yet, so that `trials` is more than an assumption."""
        return self.trials.noted

    @property
    def left(self) -> float:
        """Seconds until the run has to clean up; infinite without a budget."""
        if self.budget is None:
            return inf
        closing = min(_CLOSING_SECONDS, _CLOSING_SHARE * self.budget)
        return self.started + self.budget - closing - self.clock.now()

    def trials_in(self, seconds: float) -> int | None:
        """How many trials should fit; None: any number."""
        return None if seconds == inf else max(0, int(seconds / self.trials.each))
