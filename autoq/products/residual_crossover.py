"""How many values of a side may matter before correcting with all of them is faster, measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autoq.devices import Host, require_device, resolve
from autoq.runtime.cuda.driver import Device
from autoq.single_operator import operator
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.tuning.clock import Clock, MonotonicClock

DENSITIES = (0.0, 1 / 256, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""Shares of values that matter at which a sparse correction is timed, as far as lists have room."""

_OPERATIONS = {"cpu": 2**31, "cuda": 2**40}
"""The operations of a product that is timed, at most, by the kind of target: some milliseconds."""
_MEAN_SMALL, _CUT, _MEAN_LARGE = 0.45, 0.775, 0.975
"""Made-up magnitudes: 0.3 to 0.6, and 0.95 to 1 for those that matter."""
_WORTH = 0.95
"""The share of a whole side's time that lists may take to be worth their larger error."""
_NEARLY_FULL = 8 / 9
"""The share of the lists' room that random values do not exceed."""
_TURNS = 9
"""How often all densities are timed; least times of more than a few bear other work on the
machine."""


def measured_crossover(
    workload: ResidualGemm,
    target: str | Host = "auto",
    clock: Clock | None = None,
    cache_dir: Path | None = None,
) -> float:
    """The share of one side's values up to which correcting with them alone saves time.

    The kernel of the workload's extents and bits, or of smaller ones where these take long, is
    timed over made-up matrices, of which equal shares matter on both sides, and over whole ones; in
    between it is interpolated. A whole side leaves a smaller error, so that lists have to be faster
    by a twentieth.

    No more than the room of the kernel's lists, which on CUDA is its knob `share`: a side that
    overfills them is multiplied as a whole with zeros for what does not matter, at the price of a
    whole side and with the error of a sparse one. 1 where lists of any length pay; 0 where they
    never do, or where the full form, which neither selects nor lists, is as fast as empty lists.
    cache_dir as of `autoq.operator`.
    Raises TargetError where the target's device is not here.
    """
    host = target if isinstance(target, Host) else resolve(target)
    require_device(host)
    clock = clock or MonotonicClock()
    timed = _smaller(workload, _OPERATIONS[host.target.kind])
    rng = np.random.default_rng(0)
    constants = _constants(DENSITIES[-1], 0.0)
    kernel = operator(timed, target=host, constants=constants, cache_dir=cache_dir)
    full = operator(replace(timed, correction="full"), target=host, cache_dir=cache_dir)
    room = float(getattr(kernel.config, "share", 1.0))
    densities = densities_within(room)
    put = _on_device if host.target.kind == "cuda" else list
    pairs = [put(matrices(timed, density, rng)) for density in densities]
    whole = kernel.with_constants(_constants(densities[-1], 0.0))
    calls = [partial(full, *pairs[-1]), partial(whole, *pairs[-1])]
    for density, pair in zip(densities, pairs, strict=True):
        calls.append(partial(kernel.with_constants(_constants(density, 1.0)), *pair))
    full_seconds, dense, *sparse = _least_seconds(calls, host, clock)
    if not saves(sparse[0], full_seconds):
        return 0.0
    return min(crossing(densities, sparse, dense), room)


def saves(seconds: float, whole_seconds: float) -> bool:
    """Whether lists are faster than what leaves a smaller error, by enough to be worth it."""
    return seconds < _WORTH * whole_seconds


def densities_within(room: float) -> tuple[float, ...]:
    """The densities that are timed where lists have room for a share of a side's values."""
    if room >= 1:
        return DENSITIES
    return (*(one for one in DENSITIES if one < _NEARLY_FULL * room), _NEARLY_FULL * room)


def crossing(densities: Sequence[float], sparse: Sequence[float], dense: float) -> float:
    """Where times that grow with density stop to be worth it, between the densities by a line.

    They are while they are below 95% of `dense`.
    """
    if not saves(sparse[0], dense):
        return 0.0
    for i in range(1, len(densities)):
        if not saves(sparse[i], dense):
            most = _WORTH * dense
            share = (most - sparse[i - 1]) / (sparse[i] - sparse[i - 1])
            return densities[i - 1] + share * (densities[i] - densities[i - 1])
    return 1.0


def matrices(
    workload: ResidualGemm, density: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """float32 a and b, of which a share of the values matters at the `threshold_of` it.

    Values are between 0.3 and 0.6, and those that matter above 0.95; signs go by k, the same ones
    on both sides, so that sums do not cancel. See `ResidualGemm.random_case`.
    """
    signs = rng.choice(np.array([-1, 1], np.float32), workload.k)

    def values(shape: tuple[int, ...], along: np.ndarray) -> np.ndarray:
        small = rng.random(shape, np.float32)
        matters = rng.random(shape, np.float32) < density
        return np.where(matters, 0.95 + 0.05 * small, 0.3 + 0.3 * small).astype(np.float32) * along

    along = signs[:, None] if workload.b_order == "kn" else signs
    return values(workload.a.shape, signs), values(workload.b.shape, along)


def threshold_of(density: float) -> float:
    """The threshold that puts the cuts of such `matrices` between their small and large values."""
    mean = density * _MEAN_LARGE + (1 - density) * _MEAN_SMALL
    return _CUT / (2 * mean)


def _constants(density: float, crossover: float) -> dict[str, np.ndarray]:
    values = {"threshold": threshold_of(density), "crossover": crossover}
    return {name: np.array([value], np.float32) for name, value in values.items()}


def _smaller(workload: ResidualGemm, most: int) -> ResidualGemm:
    """A sparse product of two inputs, its largest extents halved until it has few operations."""
    extents = {"m": workload.m, "n": workload.n, "k": workload.k}
    while 2 * extents["m"] * extents["n"] * extents["k"] > most:
        largest = max(extents, key=lambda name: extents[name])
        extents[largest] //= 2
    return replace(workload, correction="sparse", constant_b=False, bias=False, **extents)


def _on_device(arrays: Sequence[np.ndarray]) -> list[Any]:
    import tvm.runtime

    device = tvm.runtime.device("cuda", 0)
    return [tvm.runtime.tensor(array, device) for array in arrays]


def _least_seconds(calls: Sequence[Callable[[], Any]], host: Host, clock: Clock) -> list[float]:
    """The least time of each call, all of them made in turn, after a turn that warms up."""
    least = [float("inf")] * len(calls)
    for turn in range(1 + _TURNS):
        for i, call in enumerate(calls):
            started = clock.now()
            call()
            if host.target.kind == "cuda":
                Device().synchronize()
            if turn:
                least[i] = min(least[i], clock.now() - started)
    return least
