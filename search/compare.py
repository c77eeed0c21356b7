"""Comparison of strategies over a recorded space, as the protocol for claims asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from autoq.search.registry import MakeStrategy
from autoq.search.replay import optimum, replay, trials_to_reach
from autoq.search.search_space import SearchSpace
from autoq.search.trial import Trial

C = TypeVar("C")

FRACTIONS = (0.90, 0.95, 0.99)


@dataclass(frozen=True)
class Comparison:
    """How fast one strategy came how near the optimum.

    Attributes:
        strategy: its name.
        fractions: shares of the recorded optimum's speed.
        median: trials to reach each fraction, median over the seeds; infinite when most did not.
        p90: the same, 90th percentile.
        reached: share of the seeds that reached each fraction.
        curves: speed so far as a share of the optimum's, float64 [seeds, trials].
    """

    strategy: str
    fractions: tuple[float, ...]
    median: tuple[float, ...]
    p90: tuple[float, ...]
    reached: tuple[float, ...]
    curves: np.ndarray

    def band(self) -> np.ndarray:
        """Quartiles of the curves over the seeds: float64 [3, trials] (25, 50, 75%)."""
        return np.asarray(np.quantile(self.curves, [0.25, 0.5, 0.75], axis=0))


def compare(
    space: SearchSpace[C],
    measured: Mapping[C, Trial[C]],
    strategies: Mapping[str, MakeStrategy],
    seeds: Sequence[int],
    trials: int,
    batch: int = 32,
    fractions: Sequence[float] = FRACTIONS,
) -> list[Comparison]:
    """Replay every strategy with every seed over one recorded space.

    A search that ends early keeps its last value to the end of its curve.
    """
    best = optimum(measured)
    rows: list[Comparison] = []
    for name, make in strategies.items():
        curves = [replay(make(space, seed), measured, trials, batch) for seed in seeds]
        rows.append(summarise(name, curves, best, trials, tuple(fractions)))
    return rows


def summarise(
    name: str,
    curves: Sequence[np.ndarray],
    best: float,
    trials: int,
    fractions: tuple[float, ...],
) -> Comparison:
    """The comparison of one strategy from its curves of `replay`, one for each seed.

    best: the optimum in seconds; curves that end early keep their last value up to `trials`.
    """
    counts = np.array([[trials_to_reach(c, best, f) for f in fractions] for c in curves])
    padded = np.array([np.pad(c, (0, trials - len(c)), mode="edge") for c in curves])
    return Comparison(
        strategy=name,
        fractions=fractions,
        median=_quantile(counts, 0.5),
        p90=_quantile(counts, 0.9),
        reached=tuple(np.isfinite(counts).mean(axis=0).tolist()),
        curves=best / padded,
    )


def _quantile(counts: np.ndarray, q: float) -> tuple[float, ...]:
    """Observed quantile over the seeds; interpolation would spoil on the infinities."""
    values: Any = np.quantile(counts, q, axis=0, method="inverted_cdf")
    return tuple(values.tolist())


def table(rows: Sequence[Comparison]) -> str:
    """A Markdown table: for each fraction the median and 90th percentile of the trials."""
    fractions = rows[0].fractions if rows else ()
    head = ["strategy", *(f"{fraction:.0%} median (p90)" for fraction in fractions), "final"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [
            f"{_count(median)} ({_count(p90)})"
            for median, p90 in zip(row.median, row.p90, strict=True)
        ]
        final = f"{np.median(row.curves[:, -1]):.1%}"
        lines.append("| " + " | ".join([row.strategy, *cells, final]) + " |")
    return "\n".join(lines)


def _count(trials: float) -> str:
    return f"{trials:.0f}" if np.isfinite(trials) else "never"
