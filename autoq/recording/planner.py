"""Draws plans in processes of their own, so that compilers wait for the first one alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, TimeoutError
from dataclasses import dataclass

from autoq.devices import Host
from autoq.measure.job import load_registry
from autoq.process.child import Child, Entry
from autoq.process.pool import ChildPool
from autoq.recording.options import RecordOptions
from autoq.recording.plan import Planned
from autoq.recording.wanted import as_planned, drawing_model
from autoq.templates.registry import matching
from autoq.templates.workload import Workload

# A plan of two thousand configurations takes two seconds, or minutes where a template's rules take
# one configuration after the other.
_SECONDS = 3600.0
# How long a question for a plan goes on before it is asked whether to stop.
_PATIENCE = 0.1
# Cores for each process that plans: compilers need the others.
_CORES = 8


@dataclass(frozen=True)
class PlanSettings:
    """What all plans of a recording share."""

    host: Host
    options: RecordOptions


def serve(settings: PlanSettings) -> Callable[[Workload], list[Planned]]:
    """The handler of a child process: a workload to its plan."""
    host, options = settings.host, settings.options
    templates = list(load_registry(options.registry).values())
    model = drawing_model(options.knowledge, host.target.arch)

    def plan(workload: Workload) -> list[Planned]:
        fitting = [one for one in matching(workload, host.target, templates) if one.tunable]
        return list(as_planned(workload, fitting, host, options, model))

    return plan


class Planner:
    """The plans of workloads, drawn in their order while earlier ones are measured."""

    def __init__(self, host: Host, options: RecordOptions, workloads: Iterable[Workload]) -> None:
        wanted = list(workloads)
        entry = Entry("autoq.recording.planner", "serve", PlanSettings(host, options))
        environment = {"OPENBLAS_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}
        size = max(1, min(len(wanted), options.compilers // _CORES))
        self._pool = ChildPool(lambda: Child(entry, environment), size)
        self._plans: dict[Workload, Future[list[Planned]]] = {
            workload: self._pool.submit(lambda child, one=workload: child.call(one, _SECONDS))
            for workload in wanted
        }

    def plan(self, workload: Workload, stop: Callable[[], bool]) -> list[Planned]:
        """The plan of a workload as soon as it is there, nothing where `stop` says so before.

        Raises what its process raised.
        """
        while not stop():
            with contextlib.suppress(TimeoutError):
                return self._plans[workload].result(_PATIENCE)
        return []

    def close(self) -> None:
        """Drop what is not planned yet and end the processes."""
        self._pool.close()
