"""Launches every kernel template of a GPU once, each output element checked, for a sanitizer.

`build` compiles the workloads of case files into one file, which needs no GPU: the default of
every matching template, and configurations that between them have every value of every knob;
mma.sync kernels also in the forms of older GPUs. `run` launches those of such a file:

    python scripts/launch_kernels.py build cuda:sm_90a scripts/cases/small_cases.py kernels.zip
    compute-sanitizer --tool memcheck python scripts/launch_kernels.py run kernels.zip

It compiles nothing and starts no processes, so that a sanitizer sees launches alone. A kernel that
does not compile is left out of the file and named, and `build` then exits with 1.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from case_files import load_cases

from autoq.cache import pack, unpack
from autoq.errors import BuildError
from autoq.kernel.kernel_store import KernelStore
from autoq.measure.arrays import random_case, stored_activations, stored_outputs
from autoq.measure.check import complaints
from autoq.measure.cuda_bench import CudaBench
from autoq.runtime.cuda.driver import Device
from autoq.runtime.kernel import Kernel
from autoq.runtime.kernel_json import kernel_from_json, kernel_to_json, machine_code
from autoq.search.space import Space
from autoq.templates.registry import TEMPLATES, matching
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload
from autoq.templates.workload_key import from_dict, to_dict

SEED, POISON = 7, 0xA5
# Configurations of a space among which every value of every knob is looked for.
_DRAWN = 64
# Templates whose kernels differ by GPU generation, and forms of these that later GPUs can run.
_BY_GENERATION, _OLDER = ("conv2d_mma_sync", "spmm_nibbles"), ("sm_75", "sm_80")
BY_NAME = {template.name: template for template in TEMPLATES}


@dataclass(frozen=True)
class Candidate:
    """A configuration and the target whose instructions it uses."""

    workload: Workload
    template: str
    config: Any
    form: Target

    def __str__(self) -> str:
        return f"{self.template} {self.workload} {self.form.arch} {self.config}"


@dataclass(frozen=True)
class Compiled:
    """A candidate and its machine code."""

    candidate: Candidate
    kernel: Kernel

    def to_bytes(self) -> bytes:
        """What `compiled_from` reads."""
        one = self.candidate
        fields = {
            "workload": to_dict(one.workload),
            "template": one.template,
            "config": _space(one.template, one.workload, one.form).to_dict(one.config),
            "form": one.form.arch,
            "kernel": kernel_to_json(self.kernel),
        }
        return pack(fields, machine_code(self.kernel))


def compiled_from(content: bytes) -> Compiled:
    """A candidate and its machine code, from a member of the file."""
    fields, code = unpack(content)
    workload, form = from_dict(fields["workload"]), parse_target(f"cuda:{fields['form']}")
    config = _space(fields["template"], workload, form).from_dict(fields["config"])
    candidate = Candidate(workload, fields["template"], config, form)
    return Compiled(candidate, kernel_from_json(fields["kernel"], code))


@functools.cache
def _space(template: str, workload: Workload, form: Target) -> Space[Any]:
    return BY_NAME[template].space(workload, form)


@dataclass(frozen=True)
class Request:
    """What one compiling process does: a case with one template in one form."""

    workload: Workload
    template: str
    form: Target
    target: Target
    folder: Path | None
    defaults_only: bool


def covering(space: Space[Any], rng: np.random.Generator) -> list[Any]:
    """Few of the drawn configurations, with every value of a knob that any of them has."""
    pool = space.sample(rng, _DRAWN)
    values = {config: {(name, getattr(config, name)) for name in space.knobs} for config in pool}
    missing: set[Any] = set().union(*values.values())
    chosen = []
    while missing:
        chosen.append(max(pool, key=lambda config: len(values[config] & missing)))
        missing -= values[chosen[-1]]
    return chosen


def compile_request(request: Request) -> tuple[list[Compiled], list[str]]:
    """The kernels of a request, its default first, and what is wrong with those that fail."""
    template, workload = BY_NAME[request.template], request.workload
    configs = [template.default(workload, request.form)]
    if not request.defaults_only:
        configs += covering(template.space(workload, request.form), np.random.default_rng(SEED))
    store, found, failed = KernelStore(request.folder), [], []
    for config in dict.fromkeys(configs):
        candidate = Candidate(workload, template.name, config, request.form)
        try:
            kernel = store.kernel(template, workload, config, request.target, request.form)
        except BuildError as error:
            failed.append(f"{candidate}: {error}")
        else:
            found.append(Compiled(candidate, kernel))
    return found, failed


def requests(options: argparse.Namespace, target: Target) -> Iterator[Request]:
    """Every case with every template that matches, the older forms included."""
    older = [parse_target(f"cuda:{arch}") for arch in _OLDER]
    for path in options.cases:
        for workload in load_cases(path):
            for form in (target, *older):
                for template in matching(workload, form):
                    if form == target or (template.name in _BY_GENERATION and _runs(form, target)):
                        yield Request(workload, template.name, form, target,
                                      options.kernel_store, options.defaults_only)  # fmt: skip


def _runs(form: Target, target: Target) -> bool:
    return form.compute_capability < target.compute_capability


def build(options: argparse.Namespace) -> None:
    """Compile into `options.kernels`, defaults first; exits with 1 when a kernel fails."""
    target = parse_target(options.target)
    with ProcessPoolExecutor(options.jobs) as pool:
        results = list(pool.map(compile_request, requests(options, target)))
    defaults = [kernels[0] for kernels, _ in results if kernels]
    others = [kernel for kernels, _ in results for kernel in kernels[1:]]
    with zipfile.ZipFile(options.kernels, "w") as archive:
        for index, item in enumerate(defaults + others):
            archive.writestr(f"{index}.kernel", item.to_bytes())
    failures = [line for _, failed in results for line in failed]
    for line in failures:
        print(f"FAILED {line}")
    print(f"{len(defaults + others)} kernels, {len(failures)} that do not compile")
    sys.exit(1 if failures else 0)


def run(options: argparse.Namespace) -> None:
    """Launch a part of the kernels; exits with 1 when an element of an output is wrong."""
    part, parts = map(int, options.part.split("/"))
    with zipfile.ZipFile(options.kernels) as archive:
        chosen = [compiled_from(archive.read(name)) for name in archive.namelist()[part::parts]]
    device, wrong, started = Device(), 0, time.perf_counter()
    for item in chosen:
        print(f"launch {item.candidate}", flush=True)
        found = launch(device, item)
        if found:
            print(f"WRONG {item.candidate}: {found}", flush=True)
            wrong += 1
    elapsed = time.perf_counter() - started
    print(f"{len(chosen)} kernels in {elapsed:.1f} s, {wrong} wrong")
    sys.exit(1 if wrong else 0)


def launch(device: Device, item: Compiled) -> str | None:
    """What is wrong with the output of one launch over poisoned memory; None when nothing is."""
    candidate = item.candidate
    workload, template = candidate.workload, BY_NAME[candidate.template]
    values, constants = random_case(workload, SEED)
    expected = stored_outputs(workload, workload.reference(values, constants))
    bench = CudaBench(device, stored_activations(workload, values), expected)
    loaded = bench.load(item.kernel, template.constants(workload, candidate.config, constants))
    found = complaints(loaded.run_over(POISON), expected, workload, candidate.form)
    return found or loaded.left_dirty()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    builder = verbs.add_parser("build", help="compile, without a GPU")
    builder.add_argument("target")
    builder.add_argument("cases", type=Path, nargs="+")
    builder.add_argument("kernels", type=Path, help="file to write")
    builder.add_argument("--kernel-store", type=Path, help="folder that keeps kernels between runs")
    builder.add_argument("--defaults-only", action="store_true")
    builder.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    runner = verbs.add_parser("run", help="launch each kernel once and check it")
    runner.add_argument("kernels", type=Path, help="file that `build` wrote")
    runner.add_argument("--part", default="0/1", help="i/n: every n-th kernel from the i-th on")
    options = parser.parse_args()
    build(options) if options.verb == "build" else run(options)


if __name__ == "__main__":
    main()
