"""Kernels of sparse products, compiled and packed into a folder, then measured from it.

Preparing needs no GPU. A folder holds for each case its activations and what the output must be,
and for each configuration its packed constants; machine code lies in a store of kernels.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from array_files import read_arrays, write_arrays
from cases.sparse_cases import SparseCase

import autoq
from autoq.devices import Host
from autoq.errors import AutoqError
from autoq.kernel.kernel_store import KernelStore
from autoq.kernel.nvcc import nvcc_version
from autoq.measure.arrays import stored_activations, stored_outputs
from autoq.measure.bench import POISON
from autoq.measure.check import complaints
from autoq.measure.cuda_bench import CudaBench
from autoq.measure.job import Measurement, Timing
from autoq.measure.stopwatch import timings
from autoq.records.record import Device as RecordedOn
from autoq.records.record import Record
from autoq.runtime.cuda.driver import Device
from autoq.search.knobs import plain_config
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import Target
from autoq.tuning.provenance import Provenance

_REFERENCE_THREADS = 4
_BY_NAME = {template.name: template for template in TEMPLATES}

JobsOf = Callable[[int, SparseCase], "Sequence[SparseJob]"]


@dataclass(frozen=True)
class SparseJob:
    """A configuration of a template for a case, by its number among the cases."""

    case: int
    template: str
    config: Any


@dataclass(frozen=True)
class _Request:
    """What a process prepares: a case, or a configuration of it."""

    case: SparseCase
    job: SparseJob | None
    path: Path
    target: Target
    store: Path


def prepare(
    cases: Sequence[SparseCase], jobs_of: JobsOf, folder: Path, target: Target, store: Path,
    processes: int,
) -> Iterator[str]:  # fmt: skip
    """Write the folder; gives why configurations are left out, a line each.

    jobs_of(number, case): the configurations of a case. Large cases are many processes' work.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes) as pool:
        jobs = list(pool.map(jobs_of, range(len(cases)), cases))
        requests = [
            _Request(case, None, folder / f"{i:04}.case", target, store)
            for i, case in enumerate(cases)
        ]
        requests += [
            _Request(cases[job.case], job, folder / f"{job.case:04}-{i:03}.job", target, store)
            for of_case in jobs
            for i, job in enumerate(of_case)
        ]
        yield from filter(None, pool.map(_prepare, requests))


def _prepare(request: _Request) -> str:
    activations, constants = request.case.arrays()
    workload, job = request.case.workload, request.job
    if job is None:
        expected = workload.reference_in_threads(activations, constants, _REFERENCE_THREADS)
        arrays = stored_activations(workload, activations), stored_outputs(workload, expected)
        uneven = variation(np.asarray(constants.get("pointers", ())))
        write_arrays(request.path, (*arrays, uneven))
        return ""
    template = _BY_NAME[job.template]
    try:
        KernelStore(request.store).kernel(template, workload, job.config, request.target)
    except AutoqError as error:
        return f"{request.case.name} {job.template} {job.config}: {error}"
    packed = template.constants(workload, job.config, constants)
    write_arrays(request.path, (job.template, plain_config(job.config), packed))
    return ""


def measure(
    cases: Sequence[tuple[int, SparseCase]], folder: Path, store: Path, device: Device,
    target: Target, timing: Timing,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """A row for each configuration of numbered cases: every element is compared, then timed."""
    for number, case in cases:
        at = folder / f"{number:04}.case"
        if not at.exists():
            continue
        activations, expected, uneven = read_arrays(at)
        bench = CudaBench(device, activations, expected)
        for path in sorted(folder.glob(f"{number:04}-*.job")):
            name, knobs, constants = read_arrays(path)
            template = _BY_NAME[name]
            config = template.space(case.workload, target).from_dict(knobs)
            kernel = KernelStore(store).kernel(template, case.workload, config, target)
            loaded = bench.load(kernel, constants)
            failure = ""
            for poison in POISON:
                failure = failure or complaints(
                    loaded.run_over(poison), expected, case.workload, target
                )
            us = None
            if not failure:
                us = statistics.median(timings(loaded.stopwatch(timing), timing)) * 1e6
            yield {
                "case": case.name, "workload": str(case.workload), "sparsity": case.sparsity,
                "template": name, "config": knobs, "us": us,
                "failure": failure or None, "variation": round(uneven, 3),
            }  # fmt: skip


def records(
    cases: Sequence[SparseCase], rows: Sequence[Mapping[str, Any]], host: Host, repeats: int
) -> list[Record]:
    """Tuning records of the rows that were measured: each was compared twice, as in tuning."""
    device = RecordedOn(str(host.device), host.target.arch, str(host.driver), nvcc_version())
    provenance = Provenance(device, str(tvm.__version__), autoq.__version__)
    workloads = {case.name: case.workload for case in cases}
    now = datetime.datetime.now(datetime.UTC)
    return [
        provenance.record(
            workloads[row["case"]], _BY_NAME[row["template"]], row["config"],
            Measurement(seconds=row["us"] * 1e-6, repeats=repeats), now,
        )
        for row in rows
        if row.get("us") and "template" in row
    ]  # fmt: skip


def variation(pointers: np.ndarray) -> float:
    """Standard deviation of the rows' lengths by their mean; 0 of a weight that is dense."""
    if not len(pointers):
        return 0.0
    lengths = np.diff(pointers)
    return float(lengths.std() / max(lengths.mean(), 1e-9))
