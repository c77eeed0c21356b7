"""Strategies compared over recorded spaces, many replays at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autoq.errors import InputError
from autoq.measure.job import REGISTRY, load_registry
from autoq.process.child import Child, Entry
from autoq.process.pool import ChildPool
from autoq.replaying.loading import Replayable, load
from autoq.replaying.worker import ReplayJob
from autoq.search.compare import FRACTIONS, Comparison, summarise
from autoq.search.registry import ABLATIONS, STRATEGIES
from autoq.search.replay import optimum

_SEEDS_PER_JOB = 4
_REPLAY_SECONDS = 36000.0


@dataclass(frozen=True)
class SpaceComparison:
    """How the strategies did on one recorded space."""

    path: Path
    replayable: Replayable
    rows: tuple[Comparison, ...]

    @property
    def best_seconds(self) -> float:
        return optimum(self.replayable.measured)


def compare_search(
    paths: Sequence[Path],
    strategies: Sequence[str],
    seeds: int = 32,
    trials: int = 256,
    batch: int = 0,
    jobs: int = 0,
    registry: str = REGISTRY,
    notify: Callable[[str], None] = lambda text: None,
) -> list[SpaceComparison]:
    """Replay every strategy on every space with seeds 0, 1, ...; needs no device.

    batch: configurations asked for at once, 0 for each strategy's own. jobs: processes, 0 for every
    core. The result does not depend on their number. Raises InputError or RecordError for what the
    user gave.
    """
    for name in strategies:
        if name not in STRATEGIES and name not in ABLATIONS:
            known = ", ".join([*STRATEGIES, *ABLATIONS])
            raise InputError(f"strategy {name!r} is unknown; choose from {known}")
    for name, value in (("seeds", seeds), ("trials", trials)):
        if value < 1:
            raise InputError(f"--{name} {value}: at least 1 is needed")
    if batch < 0:
        raise InputError(f"--batch {batch}: give at least 1, or 0 for each strategy's own")
    if not paths:
        raise InputError("no recorded space to compare on; make one with `autoq record`")
    templates = load_registry(registry)
    spaces = [load(path, templates) for path in paths]
    entry = Entry("autoq.replaying.worker", "serve", registry)
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}
    size = jobs or len(os.sched_getaffinity(0))
    pool = ChildPool(lambda: Child(entry, environment), size)
    try:
        futures: dict[tuple[Path, str], list[Future[np.ndarray]]] = {}
        for path in paths:
            for name in strategies:
                futures[path, name] = [
                    pool.submit(_replays(ReplayJob(path, name, part, trials, batch)))
                    for part in _parts(seeds)
                ]
        found = []
        for path, space in zip(paths, spaces, strict=True):
            best = optimum(space.measured)
            rows = []
            for name in strategies:
                curves = np.concatenate([part.result() for part in futures[path, name]])
                rows.append(summarise(name, list(curves), best, trials, FRACTIONS))
                notify(f"{space.recorded.workload}: {name} done")
            found.append(SpaceComparison(path, space, tuple(rows)))
        return found
    finally:
        pool.close()


def _replays(job: ReplayJob) -> Callable[[Child], np.ndarray]:
    def call(child: Child) -> np.ndarray:
        curves: np.ndarray = child.call(job, _REPLAY_SECONDS)
        return curves

    return call


def _parts(seeds: int) -> list[tuple[int, ...]]:
    every = range(seeds)
    return [tuple(every[i : i + _SEEDS_PER_JOB]) for i in range(0, seeds, _SEEDS_PER_JOB)]
