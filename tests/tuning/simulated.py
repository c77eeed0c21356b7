"""A device, its compilers and a clock that are simulated: hours of tuning in milliseconds."""

import heapq
import itertools
from concurrent.futures import Future

from autoq.measure.job import Measurement
from autoq.records import Device


class SimulatedClock:
    """A clock that moves when somebody waits, and calls what is due on the way."""

    def __init__(self):
        self.time = 1000.0
        self._events = []
        self._order = itertools.count()

    def now(self):
        return self.time

    def wait(self, wake, seconds):
        end = self.time + seconds
        while not wake.is_set() and self._events and self._events[0][0] <= end:
            self.time, _, call = heapq.heappop(self._events)
            call()
        if not wake.is_set():
            self.time = end

    def at(self, time, call):
        heapq.heappush(self._events, (time, next(self._order), call))

    def spend(self, seconds):
        """What the caller itself takes."""
        self.time += seconds


class SimulatedMeasurer:
    """`jobs` compilers and one device, as `DeviceMeasurer`.

    measured(job) is what a candidate measured alone gives, true_seconds(job) what a comparison
    finds; breaks(job): whether the candidate brings a comparison down. build_seconds(job) is the
    time it compiles; run_seconds that of a measurement.
    """

    device = Device("Replay", "generic")

    def __init__(self, clock, measured, true_seconds, build_seconds=lambda job: 0.2, jobs=2,
                 run_seconds=0.1, pipelined=False, breaks=lambda job: False):  # fmt: skip
        self.pipelined = pipelined
        self.submitted, self.compared = [], []
        self.closed = False
        self._clock, self._measured, self._true = clock, measured, true_seconds
        self._breaks = breaks
        self._build_seconds, self._run_seconds = build_seconds, run_seconds
        self._free_at = [clock.now()] * jobs
        self._device_free_at = clock.now()
        self._building = 0
        self._held, self._open = [], set()

    def submit(self, job):
        future = Future()
        self.submitted.append((self._clock.now(), job))
        self._open.add(future)
        self._building += 1
        first = min(range(len(self._free_at)), key=self._free_at.__getitem__)
        begin = max(self._free_at[first], self._clock.now())
        self._free_at[first] = begin + self._build_seconds(job)
        self._clock.at(self._free_at[first], lambda: self._built(job, future))
        return future

    def _built(self, job, future):
        if future.cancelled():
            return
        self._building -= 1
        self._held.append((job, future))
        if self.pipelined or not self._building:
            for held in self._held:
                self._on_device(*held)
            self._held = []

    def _on_device(self, job, future):
        begin = max(self._device_free_at, self._clock.now())
        self._device_free_at = begin + self._run_seconds

        def done():
            if not future.cancelled():
                self._open.discard(future)
                future.set_result(self._measured(job))

        self._clock.at(self._device_free_at, done)

    def compare(self, jobs, timing):
        future = Future()
        self.compared.append((self._clock.now(), jobs))
        begin = max(self._device_free_at, self._clock.now())
        self._device_free_at = begin + self._run_seconds * len(jobs)
        found = [Measurement(self._true(job), repeats=timing.repeat) for job in jobs]
        if any(map(self._breaks, jobs)):
            found = None
        self._clock.at(self._device_free_at, lambda: future.set_result(found))
        return future

    def cancel(self):
        self._building = 0
        self._held = []
        self._free_at = [self._clock.now()] * len(self._free_at)
        for future in self._open:
            future.cancel()
        self._open = set()

    def close(self):
        self.closed = True
