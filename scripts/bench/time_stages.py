"""Times the stages of residual products on a GPU, and checks the whole of y.

A stage's time is that of the program up to it less that of the program before it, launches as in a
model. The reference is that of the operator with products in float64, which are exact. Every set of
knobs that is given is timed; kernels are compiled before, in processes of their own.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from autoq.devices import require_device, resolve
from autoq.kernel.compile import compile_program
from autoq.measure.cuda_bench import CudaBench
from autoq.measure.job import Timing
from autoq.measure.stopwatch import in_turn
from autoq.runtime.cuda.driver import Device
from autoq.runtime.kernel import CudaKernel
from autoq.search.knobs import plain_config
from autoq.templates.base import Template
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.program import Program
from autoq.templates.registry import matching
from autoq.templates.target import Target

CORRECTIONS = ("none", "sparse", "full")


def exact_product(
    self: Gemm, activations: Any, constants: Any, threads: int
) -> tuple[np.ndarray, ...]:
    """The sums of a product of bytes, by a BLAS."""
    x, weight = np.asarray(activations[0]), np.asarray(constants["weight"])
    return ((x.astype(np.float64) @ weight.T.astype(np.float64)).astype(np.int32),)


def knobs_of(
    template: Template, workload: ResidualGemm, target: Target, given: Sequence[str]
) -> Any:
    """The default configuration with knobs of the command line, `name=value` in JSON."""
    space, config = template.space(workload, target), template.default(workload, target)
    values = space.to_dict(config)
    for name, value in (item.split("=", 1) for item in given):
        if name in values and len(space.knobs[name]) > 1:
            values[name] = json.loads(value)
    return space.from_dict(values)


@dataclass(frozen=True)
class Subject:
    """A workload, and the knobs that its configuration has instead of the default's."""

    workload: ResidualGemm
    knobs: tuple[str, ...]
    target: Target
    cache: Path

    @property
    def template(self) -> Template:
        """The preferred one."""
        return matching(self.workload, self.target)[0]

    @property
    def config(self) -> Any:
        """The default with the knobs."""
        return knobs_of(self.template, self.workload, self.target, self.knobs)

    def program(self) -> Program:
        """What the template builds."""
        return self.template.program(self.workload, self.config, self.target)

    def kernel(self) -> CudaKernel:
        """The program, compiled or taken from the cache."""
        work, template, config = self.workload, self.template, self.config
        specs = (*work.inputs, *template.packed(work, config), *work.outputs)
        kernel = compile_program(self.program(), specs, self.target, cache_dir=self.cache)
        if not isinstance(kernel, CudaKernel):
            raise TypeError(f"{type(kernel).__name__} is no kernel for CUDA")
        return kernel


@functools.lru_cache(maxsize=1)
def case_of(workload: ResidualGemm) -> Any:
    """Activations and constants, which knobs share."""
    return workload.random_case(np.random.default_rng(0))


@functools.lru_cache(maxsize=1)
def expected_of(workload: ResidualGemm) -> np.ndarray:
    """y of that case, which knobs share too."""
    with mock.patch.object(Gemm, "reference_in_threads", exact_product):
        (expected,) = workload.reference(*case_of(workload))
    return expected


def time_stages(subject: Subject, checks: bool) -> dict[str, Any]:
    """Seconds of every prefix of the program's launches, and whether y is right."""
    workload, config, kernel = subject.workload, subject.config, subject.kernel()
    program = subject.program()
    inputs, constants = case_of(workload)
    packed = subject.template.constants(workload, config, constants)
    bench = CudaBench(Device(0), inputs, [np.empty(s.shape, s.dtype) for s in workload.outputs])
    whole = bench.load(kernel, packed)
    found: dict[str, Any] = {"workload": str(workload), "config": plain_config(config)}
    found["knobs"] = " ".join(subject.knobs)
    found |= {"registers": kernel.registers, "spills": kernel.spill_bytes}
    ys = [whole.run_over(poison)[0] for poison in (0x55, 0xFF)]
    found["finite"] = all(bool(np.isfinite(y).all()) for y in ys)
    if checks:
        expected = expected_of(workload)
        errors = np.max([np.abs(y - expected) for y in ys], axis=0)
        found["off"] = float(errors.max() / np.abs(expected).max())
        found["unequal"] = int(np.count_nonzero(errors > 1e-6 * np.abs(expected)))
    prefixes = [
        bench.load(dataclasses.replace(kernel, launches=kernel.launches[: count + 1]), packed)
        for count in range(len(kernel.launches))
    ]
    timing = Timing(repeat=7, min_seconds=5e-3, overlapped=True)
    watches = [prefix.stopwatch(timing) for prefix in prefixes]
    seconds = [float(np.median(times)) for times in in_turn(watches, timing)]
    found["seconds"] = seconds[-1]
    found["stages"] = [
        {"writes": stage.writes[0], "seconds": here - before}
        for stage, here, before in zip(program.stages, seconds, [0.0, *seconds], strict=False)
    ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="2048,4096,8192")
    parser.add_argument("--corrections", default=",".join(CORRECTIONS))
    parser.add_argument("--order", default="kn")
    parser.add_argument(
        "--knobs", action="append", default=[], help="set of name=value in JSON, spaces between"
    )
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    host = resolve("cuda")
    require_device(host)
    results = []
    with tempfile.TemporaryDirectory() as cache:
        subjects = [
            Subject(
                ResidualGemm(size, size, size, correction=correction, b_order=options.order),
                tuple(knobs.split()), host.target, Path(cache),
            )
            for size in map(int, options.sizes.split(","))
            for correction in options.corrections.split(",")
            for knobs in options.knobs or [""]
        ]  # fmt: skip
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            list(pool.map(Subject.kernel, subjects))
        for subject in subjects:
            found = time_stages(subject, not options.no_check)
            results.append(found)
            report(found)
            if options.output:
                options.output.write_text(json.dumps(results, indent=1))
    if any(item.get("unequal") for item in results):
        sys.exit("some outputs are wrong")


def report(found: dict[str, Any]) -> None:
    """One line of all, one of the stages."""
    words = [f"{name} {found[name]}" for name in ("off", "unequal") if name in found]
    print(f"{found['workload']} {found['knobs']}: {found['seconds'] * 1e6:.1f} us", *words)
    stages = [f"{stage['writes']} {stage['seconds'] * 1e6:.1f}" for stage in found["stages"]]
    print("   ", ", ".join(stages), flush=True)


if __name__ == "__main__":
    main()
