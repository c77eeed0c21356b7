"""Replay of recorded spaces: a strategy's whole search without a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import TypeVar

import numpy as np

from autoq.errors import InputError
from autoq.search.strategy import Strategy
from autoq.search.trial import Trial

C = TypeVar("C")


def replay(
    strategy: Strategy[C],
    measured: Mapping[C, Trial[C]],
    trials: int,
    batch: int | None = 32,
    first: Sequence[C] = (),
    enough: float = 0.0,
) -> np.ndarray:
    """Run a strategy against recorded measurements.

    Args:
        strategy: a fresh one, on the space that was recorded.
        measured: the trial of every configuration that the strategy can ask for.
        trials: how many to spend.
        batch: how many are asked for at once; None for as many as the strategy says, else 32.
        first: what is measured, counted and told before the strategy is asked anything.
        enough: seconds at which the search ends, the optimum for instance.

    Returns:
        Best seconds so far after each trial, float64 [at most trials]; infinite until one
        succeeds, and shorter when the search ends early.

    Raises:
        InputError: when the strategy asks for a configuration that was not recorded.
    """
    seconds: list[float] = []
    configs = list(first[:trials])
    while len(seconds) < trials and min(seconds, default=inf) > enough:
        most = getattr(strategy, "batch", 32) if batch is None else batch
        configs = configs or strategy.ask(min(most, trials - len(seconds)))
        if not configs:
            break
        told = [_recorded(measured, config) for config in configs]
        seconds += [inf if trial.seconds is None else trial.seconds for trial in told]
        strategy.tell(told)
        configs = []
    return np.minimum.accumulate(np.array(seconds, dtype=np.float64))


def _recorded(measured: Mapping[C, Trial[C]], config: C) -> Trial[C]:
    if config not in measured:
        raise InputError(f"{config} is not among the {len(measured)} recorded configurations")
    return measured[config]


def optimum(measured: Mapping[C, Trial[C]]) -> float:
    """The fastest recorded seconds; infinite when nothing succeeded."""
    return min((t.seconds for t in measured.values() if t.seconds is not None), default=inf)


def trials_to_reach(curve: np.ndarray, best_seconds: float, fraction: float) -> float:
    """Trials until a curve of replay reaches a fraction of the optimal speed.

    Args:
        curve: best seconds so far, float [n].
        best_seconds: the recorded optimum.
        fraction: of the optimum's speed, in (0, 1]; 0.95 is reached at best_seconds / 0.95.

    Returns:
        The number of trials, or infinity when the curve never gets there.
    """
    reached = np.flatnonzero(curve <= best_seconds / fraction)
    return float(reached[0] + 1) if len(reached) else inf
