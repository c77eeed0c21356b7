"""Choosing the fastest right one of many ways to compute a layer."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autoq.errors import AutoqError
from autoq.measure.bench import POISON
from autoq.measure.graph_timing import GraphTimer, captured
from autoq.measure.job import Timing
from autoq.runtime.cuda_driver import Device, Memory, Stream
from peers.peer import PeerError, PeerTime

# How every way is timed first, and how many of the fastest are then timed in full.
_SCREENING = Timing(repeat=3, min_seconds=2e-4, budget_seconds=2e-3)
_FINALISTS = 3

# Libraries requantise as they please; ours and theirs may lie on two sides of a tie.
_ALLOWED_STEPS = 1


@dataclass(frozen=True)
class Way:
    """One way to compute a layer, its formulation, and `launch`, which puts it on a stream.

    check(y) gives the largest difference of an element of the output from the reference, in
    quantisation steps; y is where the output lies, int8.
    """

    name: str
    form: str
    launch: Callable[[int], None]
    check: Callable[[np.ndarray], int]
    y: Memory


def fastest(ways: Sequence[Way], stream: Stream, device: Device, timing: Timing) -> PeerTime:
    """The way with the least median of those that are right; raises PeerError when none is."""
    screened: list[tuple[float, Way]] = []
    refusal = "none could be launched"
    for way in ways:
        try:
            screened.append((_median(way, stream, _SCREENING), way))
        except (PeerError, AutoqError) as error:
            refusal = str(error)
            device.synchronize()  # raises where the failure has cost the CUDA context
    screened.sort(key=lambda item: item[0])
    finalists: list[tuple[float, int, Way]] = []
    for _, way in screened:
        if len(finalists) == _FINALISTS:
            break
        error = _error(way, stream, device)
        if error <= _ALLOWED_STEPS:
            finalists.append((_median(way, stream, timing), error, way))
        else:
            refusal = f"{way.name} is wrong by {error} quantisation steps"
    if not finalists:
        raise PeerError(refusal)
    seconds, error, best = min(finalists, key=lambda item: item[0])
    name = f"{best.form}, {best.name}" if best.form else best.name
    return PeerTime(seconds, name, len(screened), float(error), _others(screened, best))


def _others(screened: Sequence[tuple[float, Way]], best: Way) -> dict[str, float]:
    """The least screened time of each other formulation."""
    times: dict[str, float] = {}
    for seconds, way in screened:  # sorted
        if way.form != best.form:
            times.setdefault(way.form, seconds)
    return times


def _median(way: Way, stream: Stream, timing: Timing) -> float:
    timer = GraphTimer(stream, lambda number: captured(stream, way.launch, number))
    return statistics.median(timer.timings(timing))


def _error(way: Way, stream: Stream, device: Device) -> int:
    """Over poisoned memory, so that what a kernel leaves out counts as wrong."""
    way.y.fill(POISON[0])
    device.synchronize()
    way.launch(0)
    device.synchronize()
    y = np.empty(way.y.size, np.int8)
    way.y.read(y)
    return way.check(y)
