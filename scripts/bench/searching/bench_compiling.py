"""Where the time of compiling a candidate goes, and how many a second a machine compiles.

Configurations of recorded workloads, drawn as `autoq record` draws them. One after another first:
seconds of processor time for parsing the template's kernel, TVM's passes, its CUDA source, and
nvcc with all that it starts; of nvcc also what its own --time says of each of these programs. Then
the same configurations through as many compilers as `autoq tune` starts, once they have imported
TVM. Needs nvcc and no device.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from autoq.devices import cpu_name, resolve
from autoq.kernel.lowering import cuda_source, lower
from autoq.kernel.nvcc import FLAGS, find_nvcc, needed_headers, nvcc_version, run_nvcc
from autoq.kernel.parsing import PARSING
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings, Built
from autoq.measure.job import REGISTRY, Job, load_registry
from autoq.recording.plan import planned
from autoq.recording.workloads import given_workloads
from autoq.scratch import scratch_folder
from autoq.search.union import Candidate
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload
from autoq.tuning.prepare import ModelWorkload, tunable


def clocks() -> tuple[float, float, float]:
    """Processor time of this process, of its children in their own code, and in the kernel's."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), used.ru_utime, used.ru_stime


def stages(template: Template, workload: Workload, config: Any, target: Target) -> dict[str, float]:
    """Seconds of each stage of compiling one configuration."""
    found: dict[str, float] = defaultdict(float)
    began = time.perf_counter()
    start = clocks()[0]
    with PARSING:
        program = template.program(workload, config, target)
    parsed = clocks()[0]
    lowered = [lower(stage.function, target) for stage in program.stages]
    passed = clocks()[0]
    sources = [cuda_source(item, target) for item in lowered]
    written, user, system = clocks()
    for source in sources:
        run_nvcc(source, target.arch, needed_headers(source, target.arch))
    ended, user_after, system_after = clocks()
    found |= {
        "parse": parsed - start, "lower": passed - parsed, "generate": written - passed,
        "headers and start of nvcc": ended - written, "nvcc, its own code": user_after - user,
        "nvcc, in the operating system": system_after - system,
        "wall": time.perf_counter() - began,
    }  # fmt: skip
    for source in sources:
        for phase, seconds in phases(source, target.arch):
            found[phase] += seconds
    return found


def phases(source: str, arch: str) -> Iterator[tuple[str, float]]:
    """Wall time of the programs that nvcc starts, by nvcc's own count."""
    number = arch.removeprefix("sm_")
    with scratch_folder() as folder:
        for name, text in {"kernel.cu": source, **needed_headers(source, arch)}.items():
            (folder / name).write_text(text)
        command = [find_nvcc(), *FLAGS, f"-gencode=arch=compute_{number},code=sm_{number}",
                   "--time", "times.csv", "-o", "kernel.cubin", "kernel.cu"]  # fmt: skip
        subprocess.run(command, cwd=folder, capture_output=True, check=False)
        with open(folder / "times.csv", newline="") as file:
            for row in csv.reader(file):
                if len(row) > 6 and row[6].strip() and row[1].strip() != "phase name":
                    yield f"wall of {row[1].strip()}", float(row[6]) / 1e3


def rate(candidates: list[tuple[Workload, Candidate]], target: Target, jobs: int) -> dict[str, Any]:
    """Candidates a second through warm compilers."""
    with scratch_folder() as scratch:
        builder = Builder(BuildSettings(REGISTRY, target, None), jobs, 120.0, scratch)
        try:
            # Every compiler's first candidate is slower: it imports TVM and reads the headers.
            first: list[Future[Built]] = []
            for workload, one in (candidates * jobs)[: 2 * jobs]:
                first.append(builder.submit(Job(workload, one.template, one.config)))
            for future in first:
                future.result()
            began = time.perf_counter()
            work = [builder.submit(Job(w, one.template, one.config)) for w, one in candidates]
            failed = sum(future.result().kernel is None for future in work)
            seconds = time.perf_counter() - began
        finally:
            builder.close()
    return {
        "compilers": jobs, "candidates": len(candidates), "failed": failed,
        "seconds": round(seconds, 2), "per_second": round(len(candidates) / seconds, 2),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", help="as `autoq record` takes them")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=42, help="configurations of each workload")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    target = resolve("cuda:sm_90a").target
    templates = load_registry(REGISTRY)
    workloads = given_workloads(options.workloads, target, list(templates.values()))
    models = [ModelWorkload(workload, 1) for workload in workloads]
    by_template: dict[str, list[dict[str, float]]] = defaultdict(list)
    candidates = []
    for model, matching in tunable(models, list(templates.values()), target):
        plan = planned(model.workload, matching, target, seed=0)
        for one in islice(plan, options.samples):
            candidates.append((model.workload, one.candidate))
            template = templates[one.candidate.template]
            found = stages(template, model.workload, one.candidate.config, target)
            by_template[template.name].append(found)
    rows = [
        {"template": name, "candidates": len(found) - 1}
        | {
            key: round(float(np.mean([one.get(key, 0) for one in found[1:]])), 4)
            for key in found[1]
        }
        for name, found in by_template.items()
        if len(found) > 1
    ]
    data = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)), "nvcc": nvcc_version(), "templates": rows,
        "rate": rate(candidates, target, options.jobs),
    }  # fmt: skip
    options.output.write_text(json.dumps(data, indent=1) + "\n")
    print(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
