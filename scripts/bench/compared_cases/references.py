"""References of benchmark cases, computed beforehand by many processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from autoq.measure.arrays import random_case
from autoq.measure.stored_reference import stored_reference
from autoq.process.child import Child, Entry
from autoq.process.pool import ChildPool
from autoq.templates.workload import Workload

# The processes are as many as there are cores, so that numpy's own threads would be too many.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_REFERENCE_SECONDS = 600.0


def serve(argument: tuple[Path, int]) -> Callable[[Workload], None]:
    """The handler of a child process: keeps a workload's reference for a seed in a folder."""
    folder, seed = argument

    def compute(workload: Workload) -> None:
        activations, constants = random_case(workload, seed)
        stored_reference(folder, seed, 1, workload, activations, constants)

    return compute


def compute_references(workloads: Sequence[Workload], folder: Path, seed: int) -> None:
    """Have the references of all workloads in `folder`, where runners look for them."""
    entry = Entry("compared_cases.references", "serve", (folder, seed))
    size = min(len(workloads), len(os.sched_getaffinity(0)))
    pool = ChildPool(lambda: Child(entry, ONE_THREAD), size)
    try:
        largest_first = sorted(workloads, key=lambda w: -w.operations)
        futures = [
            pool.submit(lambda child, w=workload: child.call(w, _REFERENCE_SECONDS))
            for workload in largest_first
        ]
        for future in futures:
            future.result()
    finally:
        pool.close()
