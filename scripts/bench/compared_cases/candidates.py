"""autoq's side of the benchmarks of layers: which kernels a case is timed with, compiled."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from autoq.compilation.selection import DEFAULT
from autoq.devices import Host
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings, Built
from autoq.measure.job import REGISTRY, Job, Timing
from autoq.measure.runner import Runner
from autoq.measure.worker import WorkerSettings
from autoq.records.database import Database
from autoq.records.lookup import choices
from autoq.templates import TEMPLATES
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload

SEED = 0
"""Of the cases' random data."""

_BUILD_SECONDS = 120.0
_RUN_SECONDS = 20.0


@dataclass(frozen=True)
class Candidate:
    """One of autoq's kernels for a case; source is the record file or "default"."""

    job: Job
    source: str


def candidates(workload: Workload, host: Host, database: Database, top: int) -> list[Candidate]:
    """The `top` fastest recorded configurations, or the untuned default where there is none.

    Of the device and of each of its siblings (`autoq/records/siblings.py`) there are as many: their
    times say nothing about one another.
    """
    found: list[Candidate] = []
    of_devices: Counter[str] = Counter()
    for choice in choices(database, workload, host.target, TEMPLATES, host.device):
        job, device = Job(workload, choice.template.name, choice.config), choice.found.record.device
        if of_devices[device.name] < top and job not in [one.job for one in found]:
            found.append(Candidate(job, choice.found.source))
            of_devices[device.name] += 1
    if found:
        return found
    template = matching(workload, host.target)[0]
    job = Job(workload, template.name, template.default(workload, host.target))
    return [Candidate(job, DEFAULT)]


class Kernels:
    """Candidates compiled in parallel; `folder` keeps machine code for another run."""

    def __init__(self, target: Target, folder: Path, count: int) -> None:
        """count: how many candidates there will be, roughly."""
        build = BuildSettings(REGISTRY, target, folder)
        # A compiler process first imports TVM, so that it should have a few kernels to compile.
        jobs = max(1, min(len(os.sched_getaffinity(0)), count // 4))
        self._builder = Builder(build, jobs, _BUILD_SECONDS)
        self._built: dict[Candidate, Future[Built]] = {}

    def start(self, found: Sequence[Candidate]) -> None:
        """Start compiling."""
        for candidate in found:
            self._built[candidate] = self._builder.submit(candidate.job)

    def finish(self) -> dict[Candidate, Built]:
        """All candidates once they are compiled; ends the compilers."""
        built = {candidate: future.result() for candidate, future in self._built.items()}
        self.close()
        return built

    def close(self) -> None:
        """End the compilers."""
        self._builder.close()


def autoq_runner(target: Target, references: Path, timing: Timing) -> Runner:
    """Checks every output element of a kernel, then times it."""
    threads = len(os.sched_getaffinity(0))
    settings = WorkerSettings(REGISTRY, target, 0, SEED, threads, references)
    return Runner(settings, timing, _RUN_SECONDS)
