"""What a child process of a comparison does: replays of one strategy on one recorded space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from autoq.measure.job import load_registry
from autoq.replaying.loading import Replayable, load
from autoq.search.registry import ABLATIONS, STRATEGIES
from autoq.search.replay import replay

# Spaces that a process holds ready.
_HELD = 4


@dataclass(frozen=True)
class ReplayJob:
    """Replays to make: of a strategy by name on a space by file, one for each seed.

    batch: configurations that are asked for at once, 0 for what the strategy itself prefers.
    """

    path: Path
    strategy: str
    seeds: tuple[int, ...]
    trials: int
    batch: int


def serve(registry: str) -> Callable[[ReplayJob], np.ndarray]:
    """The handler of a child process: best seconds so far, float64 [seeds, trials]."""
    templates = load_registry(registry)

    @lru_cache(maxsize=_HELD)
    def held(path: Path) -> Replayable:
        return load(path, templates)

    def run(job: ReplayJob) -> np.ndarray:
        found = held(job.path)
        make = {**STRATEGIES, **ABLATIONS}[job.strategy]
        curves = []
        for seed in job.seeds:
            strategy = make(found.space, seed)
            curve = replay(strategy, found.measured, job.trials, job.batch or None)
            curves.append(np.pad(curve, (0, job.trials - len(curve)), mode="edge"))
        return np.array(curves)

    return run
