"""The options of a recording, checked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from autoq.errors import InputError
from autoq.measure.job import REGISTRY, Timing
from autoq.option_types import require_types
from autoq.tuning.options import require_limits

EXPORTS = ("t4",)


@dataclass(frozen=True)
class RecordOptions:
    """What to record and how.

    samples: configurations of each workload, those of earlier runs included; exhaustive: all of
    them instead; nearby: those nearest to the templates' defaults. devices: numbers of the GPUs,
    which must be of one name. compile_only: write kernels instead of measuring. time_budget:
    seconds to measure for. at_once: workloads that are measured in turn, so that an early end has
    some of each of them; with 1 each is finished before the next one begins. export: names of
    EXPORTS. known: recorded spaces, or folders of them, whose configurations are not compiled
    again. knowledge: model of records by whose predictions half is drawn. again: measure what the
    spaces of the output folder hold, too; its later time counts. Others as in
    `tuning.options.TuneOptions`.
    """

    samples: int = 2000
    exhaustive: bool = False
    nearby: bool = False
    compile_only: bool = False
    devices: tuple[int, ...] = (0,)
    jobs: int = 0
    repeat: int = 9
    timeout: float = 10.0
    build_timeout: float = 120.0
    time_budget: float | None = None
    seed: int = 0
    export: tuple[str, ...] = ()
    cache_dir: Path | None = None
    registry: str = REGISTRY
    known: tuple[Path, ...] = ()
    at_once: int = 1
    knowledge: Path | None = None
    again: bool = False

    def __post_init__(self) -> None:
        require_types(self)
        if self.samples < 1:
            raise InputError(f"--samples {self.samples}: at least 1 is needed")
        if self.repeat < 1:
            raise InputError(f"--repeat {self.repeat}: at least 1 is needed")
        if self.exhaustive and self.nearby:
            raise InputError("--nearby: --exhaustive takes all configurations; give one of the two")
        if self.knowledge is not None and (self.exhaustive or self.nearby):
            raise InputError("--knowledge: --exhaustive and --nearby draw nothing by a model")
        if self.again and self.compile_only:
            raise InputError("--again: is of times, and --compile-only measures nothing")
        if self.at_once < 1:
            raise InputError(f"--at-once {self.at_once}: at least 1 is needed")
        require_limits(self)
        if not self.devices or min(self.devices) < 0 or len({*self.devices}) < len(self.devices):
            raise InputError(f"--devices {self.devices}: name each GPU once, by its number")
        for name in self.export:
            if name not in EXPORTS:
                raise InputError(f"--export {name!r} is unknown; choose from {', '.join(EXPORTS)}")

    @property
    def compilers(self) -> int:
        """Processes that compile: as many as there are cores where none are named."""
        return self.jobs or len(os.sched_getaffinity(0))

    def timing(self, kind: str) -> Timing:
        """How long a configuration is timed: shorter than where a winner is sought."""
        if kind == "cpu":
            return Timing(repeat=self.repeat, min_seconds=2e-3, budget_seconds=0.1)
        return Timing(repeat=self.repeat, min_seconds=5e-4, budget_seconds=0.05)
