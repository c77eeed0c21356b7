"""The clock of a tuning run, which a simulation replaces."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Seconds since some fixed instant."""
        ...

    def wait(self, wake: threading.Event, seconds: float) -> None:
        """Return when `wake` is set, after `seconds` at the latest."""
        ...


class MonotonicClock:
    """The time of this machine, as `time.monotonic` gives it."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, wake: threading.Event, seconds: float) -> None:
        wake.wait(seconds)
