"""Times products with pruned weights beside dense ones on this GPU, in one run.

Each case runs with the untuned default of every template that knows its pattern, or with the knobs
that `--knobs` names, and beside cuBLASLt's dense product; of 2:4 weights beside cuSPARSELt's too,
where torch has it. Every output element is compared with the reference.
Times are medians over replays of a CUDA graph, of the whole and of its stages. `--prepare` compiles
kernels and computes references, which needs no GPU, into `--cache`. Rows of cases that are measured
replace those of the output file; each row has a date and a commit.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from array_files import read_arrays, write_arrays
from cases.pruned_cases import PrunedCase, cases
from checkout import commit

from autoq.devices import require_device, resolve
from autoq.errors import BuildError
from autoq.kernel.compile import compile_program
from autoq.libraries.byte_products import ByteProducts
from autoq.libraries.float_products import FloatProducts
from autoq.measure.check import complaints
from autoq.measure.cuda_bench import CudaBench
from autoq.measure.job import Timing
from autoq.measure.stopwatch import in_turn
from autoq.runtime.cuda.driver import Device
from autoq.search.knobs import plain_config
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.target import Target

TIMING = Timing(repeat=9, min_seconds=4e-3, overlapped=True)


@dataclass(frozen=True)
class Subject:
    """A case, and the knobs that its configurations have instead of the defaults'."""

    case: PrunedCase
    knobs: tuple[str, ...]
    target: Target
    cache: Path

    def kernels(self, workload: Any) -> list[Candidate]:
        """The templates that know the case's pattern, each with a configuration."""
        dense = matching(workload.dense, self.target)
        known = [each for each in matching(workload, self.target) if each not in dense]
        return [Candidate(self, template, self.config(template, workload)) for template in known]

    def config(self, template: Template, workload: Any) -> Any:
        """The default with the knobs."""
        space = template.space(workload, self.target)
        values = space.to_dict(template.default(workload, self.target))
        named = {name: json.loads(v) for name, v in (item.split("=") for item in self.knobs)}
        values |= {name: value for name, value in named.items() if name in values}
        return space.config_type(**values)

    def prepared(self) -> list[str]:
        """Compile kernels and pack weights; of each what is wrong, or what it takes."""
        _, constants = arrays_of(self.case, self.cache)
        workload = self.case.workload(constants)
        return [candidate.prepared(workload, constants) for candidate in self.kernels(workload)]


@dataclass(frozen=True)
class Candidate:
    """A kernel for a case."""

    subject: Subject
    template: Template
    config: Any

    def legal(self, workload: Any) -> bool:
        """Whether the template allows the configuration."""
        return self.config in self.template.space(workload, self.subject.target)

    def prepared(self, workload: Any, constants: Any) -> str:
        """Compile it and pack the weight; what is wrong, or what it takes."""
        name = f"{self.subject.case.name}: {self.template.name}"
        if not self.legal(workload):
            return f"{name} {self.config} is not legal"
        try:
            kernel = self.kernel(workload)
        except BuildError as error:
            return f"{name} {self.config} {error}"
        self.packed(workload, constants)
        return f"{name} {self.subject.knobs} {kernel.registers} {kernel.spill_bytes} spilled"

    def packed(self, workload: Any, constants: Any) -> Any:
        """The constants as the kernel takes them."""
        template, config = self.template, self.config
        name = f"{self.subject.case.name} {template.name} {config}"
        cache = self.subject.cache
        return kept(cache, name, lambda: template.constants(workload, config, constants))

    def kernel(self, workload: Any) -> Any:
        """The program, compiled or taken from the cache."""
        target, config = self.subject.target, self.config
        specs = (*workload.inputs, *self.template.packed(workload, config), *workload.outputs)
        program = self.template.program(workload, config, target)
        return compile_program(program, specs, target, cache_dir=self.subject.cache)


def kept(cache: Path, name: str, compute: Callable[[], Any]) -> Any:
    """What compute gives, from the cache where it is there."""
    file = cache / f"{hashlib.sha256(name.encode()).hexdigest()[:20]}.npz"
    if not file.exists():
        write_arrays(file, compute())
    return read_arrays(file)


def arrays_of(case: PrunedCase, cache: Path) -> Any:
    """Activations and constants of a case."""
    return kept(cache, f"arrays {case.name}", case.arrays)


def outputs_of(case: PrunedCase, cache: Path, threads: int) -> Any:
    """The outputs of a case in numpy."""

    def compute() -> Any:
        return case.dense.reference_in_threads(*arrays_of(case, cache), threads)

    return kept(cache, f"outputs {case.name}", compute)


def measured(case: PrunedCase, subjects: list[Subject], rows: list[dict[str, Any]]) -> None:
    """Append a row for every subject of a case."""
    cache = subjects[0].cache
    values, constants = arrays_of(case, cache)
    workload = case.workload(constants)
    expected = outputs_of(case, cache, len(os.sched_getaffinity(0)))
    bench = CudaBench(Device(0), values, [np.empty(s.shape, s.dtype) for s in workload.outputs])
    found = (one for subject in subjects for one in subject.kernels(workload))
    # Knobs that a template does not have change nothing of it.
    for candidate in {(one.template.name, one.config): one for one in found}.values():
        if candidate.legal(workload):
            row = timed(candidate, workload, constants, bench, expected)
            rows.append({"case": case.name, "template": candidate.template.name, **row})
            print(*(value for key, value in rows[-1].items() if key != "spills"), flush=True)


def timed(
    candidate: Candidate, workload: Any, constants: Any, bench: CudaBench, expected: Any
) -> dict[str, Any]:
    """What is measured of a kernel: microseconds, of the whole and of its first stage."""
    row: dict[str, Any] = {"config": plain_config(candidate.config), "us": None}
    try:
        kernel = candidate.kernel(workload)
    except BuildError as error:
        return {**row, "failure": str(error)}
    packed = candidate.packed(workload, constants)
    whole = bench.load(kernel, packed)
    for poison in (0x55, 0xFF):
        found = whole.run_over(poison)
    row["failure"] = complaints(list(found), expected, workload, candidate.subject.target)
    first = [bench.load(replace(kernel, launches=kernel.launches[:1]), packed)]
    prefixes = [whole, *(first if len(kernel.launches) > 1 else [])]
    watches = [prefix.stopwatch(TIMING) for prefix in prefixes]
    us, *turn = (float(np.median(times)) * 1e6 for times in in_turn(watches, TIMING))
    return {**row, "us": us, "turning_us": sum(turn), "spills": kernel.spill_bytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default="", help="parts of names, comma-separated; default all")
    parser.add_argument("--knobs", action="append", default=[], help="name=value, spaces between")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--processes", type=int, default=None, help="that prepare")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    parts = options.cases.split(",")
    chosen = [case for case in cases() if any(part in case.name for part in parts)]
    if options.prepare:
        target = resolve("cuda").target
    else:
        host = resolve("cuda")
        require_device(host)
        target = host.target
    knobs = [tuple(text.split()) for text in options.knobs or [""]]
    subjects = {c: [Subject(c, k, target, options.cache) for k in knobs] for c in chosen}
    if options.prepare:
        with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
            list(pool.map(arrays_of, chosen, repeat(options.cache)))
            outputs = pool.map(outputs_of, chosen, repeat(options.cache), repeat(8))
            for lines in pool.map(Subject.prepared, chain(*subjects.values())):
                print(*lines, sep="\n", flush=True)
            list(outputs)
        return
    run(options, subjects)


def run(options: argparse.Namespace, subjects: dict[PrunedCase, list[Subject]]) -> None:
    """Measure every case, keeping the output file up to date."""
    host = resolve("cuda")
    rows: list[dict[str, Any]] = []
    if options.output and options.output.exists():
        rows = json.loads(options.output.read_text())["rows"]
    peers = {} if options.no_peers else peer_times(list(subjects))
    for case, own in subjects.items():
        rows = [row for row in rows if row["case"] != case.name]
        found: list[dict[str, Any]] = []
        measured(case, own, found)
        dated = {"date": str(datetime.date.today()), "commit": commit()}
        rows += [{**row, **peers.get(case.name, {}), **dated} for row in found]
        if options.output:
            heading = {"device": str(host.device), "driver": host.driver}
            options.output.write_text(json.dumps({**heading, "rows": rows}, indent=1) + "\n")
    if any(row.get("failure") for row in rows):
        sys.exit("some outputs are wrong")


def peer_times(cases: list[PrunedCase]) -> dict[str, dict[str, float | None]]:
    """Microseconds of the libraries' products by the cases' names.

    They are cuBLASLt's dense ones, and of 2:4 weights also cuSPARSELt's.
    """
    dense: dict[Any, float] = {}
    for workload in dict.fromkeys(case.dense for case in cases):
        kind = ByteProducts if workload.in_dtype == "int8" else FloatProducts
        dense[workload] = kind().measure(workload, TIMING).seconds * 1e6
        print(f"{dense[workload]:8.2f} us  cuBLASLt {workload}", flush=True)
    found: dict[str, dict[str, float | None]] = {
        case.name: {"cublaslt_us": dense[case.dense]} for case in cases
    }
    pruned = {_extents(case.dense): case.name for case in cases if case.two_four}
    if pruned:
        command = [sys.executable, Path(__file__).with_name("cusparselt_times.py"), *pruned]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        for line in done.stdout.splitlines():
            extents, *words = line.split()
            us = float(words[0]) if len(words) == 1 else None
            found[pruned[extents]]["cusparselt_us"] = us
            print(f"cuSPARSELt {line}", flush=True)
    return found


def _extents(workload: Any) -> str:
    return f"{workload.m},{workload.n},{workload.k},{workload.in_dtype}"


if __name__ == "__main__":
    main()
