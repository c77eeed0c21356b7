"""How many values of a side may matter before correcting with all of them is faster, measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autoq.devices import Host, require_device, resolve
from autoq.runtime.cuda.driver import Device
from autoq.single_operator import CompiledOperator, operator
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.tuning.clock import Clock, MonotonicClock

DENSITIES = (0.0, 1 / 256, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""Shares of values that matter at which a sparse correction is timed."""

_OPERATIONS = {"cpu": 2**34, "cuda": 2**40}
"""Of the product that is timed, at most, by the kind of target: some milliseconds."""
_THRESHOLD = 0.8
"""Between values of 0.3 to 0.6 of the largest and those above 0.95, see `matrices`."""
_REPEATS = 5


def measured_crossover(
    workload: ResidualGemm, target: str | Host = "auto", clock: Clock | None = None
) -> float:
    """The share of one side's values at which lists of them take as long as the whole side.

    The untuned kernel of the workload's extents and bits, or of smaller ones where these take long,
    is timed over made-up matrices, of which equal shares matter on both sides, and over whole ones;
    in between it is interpolated. 0 where lists never pay, 1 where they always do.
    Raises TargetError where the target's device is not here.
    """
    host = target if isinstance(target, Host) else resolve(target)
    require_device(host)
    clock = clock or MonotonicClock()
    timed = _smaller(workload, _OPERATIONS[host.target.kind])
    rng = np.random.default_rng(0)
    lists = operator(timed, target=host, constants=_constants(1.0))
    whole = lists.with_constants(_constants(0.0))
    put = _on_device if host.target.kind == "cuda" else list
    arrays = [put(matrices(timed, density, rng)) for density in DENSITIES]
    dense = _seconds(whole, arrays[-1], host, clock)
    sparse = [_seconds(lists, pair, host, clock) for pair in arrays]
    return crossing(DENSITIES, sparse, dense)


def crossing(densities: Sequence[float], sparse: Sequence[float], dense: float) -> float:
    """Where times that grow with density reach `dense`, between the densities by a line."""
    if sparse[0] >= dense:
        return 0.0
    for i in range(1, len(densities)):
        if sparse[i] >= dense:
            share = (dense - sparse[i - 1]) / (sparse[i] - sparse[i - 1])
            return densities[i - 1] + share * (densities[i] - densities[i - 1])
    return 1.0


def matrices(
    workload: ResidualGemm, density: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """float32 a and b, of which a share of the values matters at a threshold of 0.8.

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


def _constants(crossover: float) -> dict[str, np.ndarray]:
    values = {"threshold": _THRESHOLD, "crossover": crossover}
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


def _seconds(compute: CompiledOperator, arrays: Sequence[Any], host: Host, clock: Clock) -> float:
    """The least time of a few calls, after one that warms up."""
    times = []
    for _ in range(1 + _REPEATS):
        started = clock.now()
        compute(*arrays)
        if host.target.kind == "cuda":
            Device().synchronize()
        times.append(clock.now() - started)
    return min(times[1:])
