"""Timing device work by replaying a CUDA graph of many launches of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from autoq.errors import AutoqError
from autoq.measure.job import Timing
from autoq.measure.stopwatch import Stopwatch, timings
from autoq.runtime.cuda.driver import Event, Stream
from autoq.runtime.cuda.graph import CudaGraph, begin_capture, end_capture

Replay = Callable[[], None]

_PROBE_LAUNCHES = 4
_MOST_LAUNCHES = 256
# Resolution of a CUDA event.
_CLOCK_SECONDS = 5e-7


class CudaGraphTimer:
    """Times one launch on `stream` by CUDA events around replays of many.

    capture(number) gives a function that replays `number` launches on the stream.
    """

    def __init__(self, stream: Stream, capture: Callable[[int], Replay]) -> None:
        self._stream = stream
        self._capture = capture
        self._events = (Event(), Event())

    def timings(self, timing: Timing, least_launches: int = 1) -> list[float]:
        """Seconds of one launch, once for each repeat; a graph holds rounds of `least_launches`.

        `timing.cold` is the caller's business: it chooses what is captured.
        """
        return timings(self.stopwatch(timing, least_launches), timing)

    def stopwatch(self, timing: Timing, least_launches: int = 1) -> Stopwatch:
        """A graph of so many launches, captured and warm, in whole rounds of `least_launches`."""
        rounds = -(-(timing.number or self._choose_number(timing)) // least_launches)
        number = rounds * least_launches
        replay = self._capture(number)
        self._seconds(replay)
        return Stopwatch(number, lambda: self._seconds(replay))

    def _choose_number(self, timing: Timing) -> int:
        replay = self._capture(_PROBE_LAUNCHES)
        self._seconds(replay)
        once = self._seconds(replay) / _PROBE_LAUNCHES
        wanted = int(timing.min_seconds / max(once, _CLOCK_SECONDS))
        return min(_MOST_LAUNCHES, max(_PROBE_LAUNCHES, wanted))

    def _seconds(self, replay: Replay) -> float:
        before, after = self._events
        before.record(self._stream)
        replay()
        after.record(self._stream)
        return after.seconds_since(before)


def captured(stream: Stream, launch: Callable[[int], None], number: int) -> Replay:
    """A function that replays launch(0) ... launch(number - 1), which put work on `stream`."""
    begin_capture(stream)
    try:
        for index in range(number):
            launch(index)
    except BaseException:
        # The stream must not stay in capture mode; what failed is the launch.
        with contextlib.suppress(AutoqError):
            end_capture(stream)
        raise
    graph: CudaGraph = end_capture(stream)
    return lambda: graph.replay(stream)
