"""Times the stages of residual products on a GPU, and checks the whole of y.

A stage's time is that of the program up to it less that of the program before it, launches as in a
model. The reference is that of the operator with products in float64, which are exact.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
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
from autoq.templates.base import Template
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.registry import matching
from autoq.templates.target import Target

CORRECTIONS = ("none", "sparse", "full")


def exact_product(
    self: Gemm, activations: Any, constants: Any, threads: int
) -> tuple[np.ndarray, ...]:
    """The sums of a product of bytes, by a BLAS."""
    x, weight = np.asarray(activations[0]), np.asarray(constants["weight"])
    return ((x.astype(np.float64) @ weight.T.astype(np.float64)).astype(np.int32),)


def knobs_of(template: Template, workload: ResidualGemm, target: Target, given: list[str]) -> Any:
    """The default configuration with knobs of the command line, `name=value` in Python."""
    config = template.default(workload, target)
    changes = dict(item.split("=", 1) for item in given)
    known = {field.name for field in dataclasses.fields(config)}
    return dataclasses.replace(
        config, **{name: json.loads(value) for name, value in changes.items() if name in known}
    )


def time_stages(workload: ResidualGemm, target: Target, given: list[str], checks: bool) -> Any:
    """Seconds of every prefix of the program's launches, and whether y is right."""
    template = matching(workload, target)[0]
    config = knobs_of(template, workload, target, given)
    program = template.program(workload, config, target)
    specs = (*workload.inputs, *template.packed(workload, config), *workload.outputs)
    kernel = compile_program(program, specs, target)
    inputs, constants = workload.random_case(np.random.default_rng(0))
    packed = template.constants(workload, config, constants)
    bench = CudaBench(Device(0), inputs, [np.empty(s.shape, s.dtype) for s in workload.outputs])
    whole = bench.load(kernel, packed)
    found: dict[str, Any] = {"workload": str(workload), "config": str(config)}
    found |= {"registers": kernel.registers, "spills": kernel.spill_bytes}
    for poison in (0x55, 0xFF):
        (y,) = whole.run_over(poison)
        found["finite"] = bool(np.isfinite(y).all())
    if checks:
        with mock.patch.object(Gemm, "reference_in_threads", exact_product):
            (expected,) = workload.reference(inputs, constants)
        found["off"] = float(np.abs(y - expected).max() / np.abs(expected).max())
        found["unequal"] = int(np.count_nonzero(np.abs(y - expected) > 1e-6 * np.abs(expected)))
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
    parser.add_argument("--knob", action="append", default=[], help="name=value, for all that fit")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    host = resolve("cuda")
    require_device(host)
    results = []
    for size in map(int, options.sizes.split(",")):
        for correction in options.corrections.split(","):
            started = time.perf_counter()
            workload = ResidualGemm(size, size, size, correction=correction, b_order=options.order)
            found = time_stages(workload, host.target, options.knob, not options.no_check)
            results.append(found)
            print(f"{found['workload']}: {found['seconds'] * 1e6:.1f} us", end="")
            print(*(f"  {name} {found[name]}" for name in ("off", "unequal") if name in found))
            for stage in found["stages"]:
                print(f"    {stage['writes']:<16} {stage['seconds'] * 1e6:9.1f} us")
            print(f"    ({time.perf_counter() - started:.1f} s of all)", flush=True)
            if options.output:
                options.output.write_text(json.dumps(results, indent=1))
    if any(item.get("unequal") for item in results):
        sys.exit("some outputs are wrong")


if __name__ == "__main__":
    main()
