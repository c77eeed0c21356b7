"""Timings of one kernel in a row, or of several in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autoq.measure.job import Timing

_LEAST_REPEATS = 3


@dataclass(frozen=True)
class Stopwatch:
    """One kernel, ready to be timed.

    once: runs `launches` launches of it and gives the seconds of all together; holds keeps alive
    what they use.
    """

    launches: int
    once: Callable[[], float]
    holds: Any = None

    def seconds(self) -> float:
        """Time `launches` launches: seconds of one."""
        return self.once() / self.launches


def added(among: Stopwatch, without: Stopwatch, holds: Any = None) -> Stopwatch:
    """What each second launch of `among` adds, the others being those of `without`."""
    return Stopwatch(1, lambda: 2 * among.seconds() - without.seconds(), (among, without, holds))


def in_turn(
    watches: Sequence[Stopwatch], timing: Timing, sleep: Callable[[float], None] = time.sleep
) -> list[list[float]]:
    """Seconds of one launch for each watch and repeat: a list of timings for each watch.

    Each repeat times every watch once, so that a slow moment of the device meets all of them, and
    each begins with another one. All come behind an equal rest, if `timing` has one, and a run
    that does not count: a device that has rested is slow at first. They end early, after three,
    when `timing.budget_seconds` for each watch are spent.
    """
    found: list[list[float]] = [[] for _ in watches]
    spent = 0.0
    for repeat in range(timing.repeat):
        if repeat >= _LEAST_REPEATS and spent > timing.budget_seconds * len(watches):
            break
        for place in range(len(watches)):
            index = (repeat + place) % len(watches)
            if timing.rest_seconds:
                sleep(timing.rest_seconds)
                watches[index].once()
            seconds = watches[index].seconds()
            spent += seconds * watches[index].launches
            found[index].append(seconds)
    return found


def timings(watch: Stopwatch, timing: Timing) -> list[float]:
    """Seconds of one launch, once for each repeat."""
    return in_turn([watch], timing)[0]
