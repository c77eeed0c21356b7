"""Ctrl-C and SIGTERM as a request to stop cleanly."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class StopOnSignal:
    """While active, the first SIGINT or SIGTERM sets `requested`; a second one acts as usual.

    Python delivers signals to the main thread only; in any other thread this does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopOnSignal:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *raised: object) -> None:
        self._restore()

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())
