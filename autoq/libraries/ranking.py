"""Choosing the fastest right one of a peer's ways to compute a workload.

A peer is something else that computes what autoq's kernels do: a library or a compiler.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autoq.errors import AutoqError, LibraryError
from autoq.measure.bench import POISON
from autoq.measure.cuda_graph_timing import CudaGraphTimer, captured
from autoq.measure.job import Timing
from autoq.runtime.cuda.driver import Device, Memory, Stream

# How every way is timed first, and how many of the fastest are then timed in full.
_SCREENING = Timing(repeat=3, min_seconds=2e-4, budget_seconds=2e-3)
_FINALISTS = 3

# Libraries requantise as they please; ours and theirs may lie on two sides of a tie.
_ALLOWED_STEPS = 1.0


@dataclass(frozen=True)
class PeerTime:
    """The median seconds of a peer's fastest way to compute a workload.

    what: names that way; tried: how many ways were timed; max_error: the largest difference of
    an output element from the reference, in quantisation steps (in units of the output's root
    mean square for float16); others: seconds of the best of each other formulation, by name.
    """

    seconds: float
    what: str
    tried: int
    max_error: float
    others: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Way:
    """One way to compute a workload, its formulation, and `launch`, which puts it on a stream.

    check(y) gives the largest difference of an element of the output from the reference, in
    quantisation steps or in units of the output's root mean square; allowed is the largest that
    counts as right; y is where the output lies, which `check` gets as int8.
    """

    name: str
    form: str
    launch: Callable[[int], None]
    check: Callable[[np.ndarray], float]
    y: Memory
    allowed: float = _ALLOWED_STEPS


def fastest(ways: Sequence[Way], stream: Stream, device: Device, timing: Timing) -> PeerTime:
    """The way with the least median of those that are right; raises LibraryError when none is."""
    screened, refusal = _screened(ways, stream, device)
    best: dict[str, tuple[float, float, Way]] = {}
    for form in dict.fromkeys(way.form for way in screened):
        own = [way for way in screened if way.form == form]
        finalists, wrong = _finalists(own, stream, device, timing)
        refusal = wrong or refusal
        if finalists:
            best[form] = min(finalists, key=lambda item: item[0])
    if not best:
        raise LibraryError(refusal)
    seconds, error, way = min(best.values(), key=lambda item: item[0])
    others = {form: item[0] for form, item in best.items() if form != way.form}
    name = f"{way.form}, {way.name}" if way.form else way.name
    return PeerTime(seconds, name, len(screened), error, others)


def _screened(ways: Sequence[Way], stream: Stream, device: Device) -> tuple[list[Way], str]:
    """The ways that run, by a short timing, fastest first; and why another does not."""
    timed: list[tuple[float, Way]] = []
    refusal = "no way to compute it was found"
    for way in ways:
        try:
            timed.append((_median(way, stream, _SCREENING), way))
        except AutoqError as error:
            refusal = str(error)
            device.synchronize()  # raises where the failure has cost the CUDA context
    return [way for _, way in sorted(timed, key=lambda item: item[0])], refusal


def _finalists(
    ways: Sequence[Way], stream: Stream, device: Device, timing: Timing
) -> tuple[list[tuple[float, float, Way]], str]:
    """Median seconds and error of the first right ones, and why another is wrong."""
    found: list[tuple[float, float, Way]] = []
    wrong = ""
    for way in ways:
        if len(found) == _FINALISTS:
            break
        error = _error(way, stream, device)
        if error <= way.allowed:
            found.append((_median(way, stream, timing), error, way))
        else:
            wrong = f"{way.name} is wrong by {error:.3g}, where {way.allowed:g} is allowed"
    return found, wrong


def _median(way: Way, stream: Stream, timing: Timing) -> float:
    timer = CudaGraphTimer(stream, lambda number: captured(stream, way.launch, number))
    return statistics.median(timer.timings(timing))


def _error(way: Way, stream: Stream, device: Device) -> float:
    """Over poisoned memory, so that what a kernel leaves out counts as wrong."""
    way.y.fill(POISON[0])
    device.synchronize()
    way.launch(0)
    device.synchronize()
    y = np.empty(way.y.size, np.int8)
    way.y.read(y)
    return float(way.check(y))
