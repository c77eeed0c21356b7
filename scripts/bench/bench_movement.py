"""Times the kernels that memory limits on this GPU against what their bytes cost.

Every output element is compared with numpy before a time counts. A time is the median over replays
of a CUDA graph of many launches, each started while the one before it drains, as in a model; the
arrays then lie in the L2. `--plans SHAPE` times element-wise kernels under every plan instead.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import multiprocessing
import os
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc

from autoq.graph import Fusion
from autoq.graph.lowering.fusions import (
    elementwise_prim_func,
    fusion_prim_func,
    kernel_family,
)
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.kernel import compile_kernel
from autoq.kernel.kernel_store import KernelStore
from autoq.measure.arrays import random_case, stored_activations, stored_outputs
from autoq.measure.cuda_bench import CudaBench
from autoq.measure.job import Timing
from autoq.measure.stopwatch import timings
from autoq.runtime.cuda.driver import Device
from autoq.runtime.kernel import Kernel
from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.registry import matching
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload

sys.path.insert(0, str(Path(__file__).parents[1]))
from checkout import commit
from movement.fusions import BATCH, GLOBAL_POOLS, fusions
from movement.plans import Planned, planned

BANDWIDTH = 4.3e12
"""Bytes a second of an H200's memory."""
ALLOWED_RATIO, ALLOWED_SECONDS = 1.5, 2e-6
POISON = 0xA5
MOST_BESIDE_TIES = 1e-3
"""Share of a row formula's integers that may lie a step from numpy's."""
U8 = {"in_dtype": "uint8", "out_dtype": "uint8"}


def workloads() -> list[Workload]:
    """Templates' cases."""
    cases: list[Workload] = [
        Pool2d("average", BATCH, size, size, c, size, size, **U8) for size, c in GLOBAL_POOLS
    ]
    cases += [Pool2d("average", n, 7, 7, 2048, 7, 7) for n in (1, 8, 128)]
    cases += [
        Pool2d("average", BATCH, 56, 56, 64, 56, 56, in_dtype="float32", out_dtype="float32"),
        Pool2d("max", BATCH, 56, 56, 144, 56, 56),
        Pool2d("max", BATCH, 112, 112, 64, 3, 3, (2, 2), (1, 1, 1, 1)),
        Pool2d("max", BATCH, 112, 112, 24, 3, 3, (2, 2), (1, 1, 1, 1), **U8),
        Pool2d("average", BATCH, 28, 28, 256, 2, 2, (2, 2), **U8),
    ]
    sizes = ((56, 256), (28, 512), (14, 1024), (7, 2048), (56, 24), (14, 112))
    cases += [Add((BATCH, size, size, c)) for size, c in sizes]
    cases += [
        Concat(BATCH * size * size, (c, c), ("uint8", "uint8"), (True, True), "uint8")
        for size, c in ((28, 58), (14, 116), (7, 232), (28, 64), (56, 128))
    ]
    cases += [Quantize(BATCH, 224, 224, 3, 16, 2), Quantize(BATCH, 224, 224, 3, 3)]
    return [*cases, Dequantize(BATCH, 1, 1, 1000), Dequantize(BATCH, 56, 56, 64)]


@dataclass(frozen=True)
class Case:
    """A compiled kernel, its inputs in parameter order and the output that numpy gives."""

    name: str
    kernel_name: str
    kernel: Kernel
    inputs: list[np.ndarray]
    expected: np.ndarray

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in (*self.inputs, self.expected))


def case(item: Workload | Fusion | Planned, target: Target, cache: Path | None) -> Case:
    """An item compiled, with random arrays."""
    if isinstance(item, Planned):
        function = elementwise_prim_func(item.node, target, item.plan)
        made = operator_case(item.node, target, cache, function)
        return replace(made, name=f"{made.name}: {item}")
    if isinstance(item, Fusion):
        return operator_case(item, target, cache, fusion_prim_func(item, target))
    return template_case(item, target, cache)


def template_case(workload: Workload, target: Target, cache: Path | None) -> Case:
    template = matching(workload, target)[0]
    config = template.default(workload, target)
    kernel = KernelStore(cache).kernel(template, workload, config, target)
    activations, constants = random_case(workload, seed=3)
    inputs = [*stored_activations(workload, activations)]
    inputs += template.constants(workload, config, constants)
    (expected,) = stored_outputs(workload, workload.reference(activations, constants))
    return Case(str(workload), template.name, kernel, inputs, expected)


def operator_case(node: Fusion, target: Target, cache: Path | None, function: PrimFunc) -> Case:
    kernel = compile_kernel(function, target, cache_dir=cache)
    rng = np.random.default_rng(3)
    inputs = []
    for shape, dtype in zip(node.input_shapes, node.input_dtypes, strict=True):
        if dtype == "float32":
            inputs.append(rng.standard_normal(shape, np.float32))
        else:
            limits = np.iinfo(dtype)
            inputs.append(rng.integers(limits.min, limits.max + 1, shape).astype(dtype))
    sizes = " ".join("x".join(map(str, shape)) for shape in node.input_shapes)
    expected = evaluate_fusion(node, inputs)
    # A transposition's primitives do not say what it moves.
    moved = node.input_dtypes[0] if node.kind == "Transpose" else "int8"
    name = f"{node.kind} {sizes}" + (f" {moved}" if moved != "int8" else "")
    return Case(name, kernel_family(node, target), kernel, inputs, expected)


def measured(case: Case, device: Device) -> dict[str, Any]:
    """The case's row: microseconds a launch, its floor, and whether the output was right."""
    candidate = CudaBench(device, case.inputs, [case.expected]).load(case.kernel, ())
    ties = MOST_BESIDE_TIES if case.kernel_name == "rows" else 0.0
    checked = agrees(candidate.run_over(POISON)[0], case.expected, ties)
    overlapped, apart = (
        statistics.median(timings(candidate.stopwatch(timing), timing))
        for timing in (Timing(overlapped=True), Timing())
    )
    floor = case.bytes / BANDWIDTH
    return {
        "case": case.name,
        "kernel": case.kernel_name,
        "us": overlapped * 1e6,
        "us_apart": apart * 1e6,
        "blocks": sum(math.prod(launch.grid) for launch in case.kernel.launches),
        "registers": case.kernel.registers,
        "floor_us": floor * 1e6,
        "ratio": overlapped / floor,
        "within": overlapped <= max(ALLOWED_RATIO * floor, floor + ALLOWED_SECONDS),
        "checked": checked,
    }


def agrees(got: np.ndarray, expected: np.ndarray, ties: float = 0.0) -> bool:
    """float32 within rounding of another order of sums; integers equal but for a share of `ties`.

    Beside a tie, the order of a row's sum decides between two neighbours.
    """
    if expected.dtype == np.float32:
        return np.allclose(got, expected, rtol=1e-4, atol=1e-5)
    apart = np.abs(got.astype(np.int32) - expected)
    return bool(apart.max() <= (ties > 0) and (apart > 0).mean() <= ties)


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    was = f"{row['us_before']:8.2f}" if row.get("us_before") else " " * 8
    mark = "WRONG" if not row["checked"] else "" if row["within"] else "far"
    times = f"{was}{row['us']:8.2f} us, apart {row['us_apart']:6.2f}, floor {row['floor_us']:6.2f}"
    return f"{times} {mark:5s} {row['kernel']:16s} {row['case']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="(one of scripts/results)")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--before", type=Path, help="results of an earlier commit to set beside")
    parser.add_argument("--cache-dir", type=Path, help="keeps machine code")
    parser.add_argument("--compile-only", action="store_true", help="fill --cache-dir, no GPU")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--plans", nargs="+", metavar="SHAPE",
                        help="only element-wise fusions of these first inputs, as 8x112x112x32, "
                        "under every plan")  # fmt: skip
    parser.add_argument("--commit", default=commit(), help="recorded in the output")
    options = parser.parse_args()
    target = parse_target(options.target)
    items = [*workloads(), *fusions()]
    if options.plans:
        items = [*planned(fusions(), options.plans, target)]
    compiled = partial(case, target=target, cache=options.cache_dir)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        cases = list(pool.map(compiled, items))
    if options.compile_only:
        return
    device = Device()
    device.make_current()
    rows = [measured(case, device) for case in cases]
    if options.before is not None:
        earlier = {row["case"]: row for row in json.loads(options.before.read_text())["rows"]}
        for row in rows:
            row["us_before"] = earlier.get(row["case"], {}).get("us")
    for row in rows:
        print(line(row))
    kind = "movement_plans" if options.plans else "movement"
    output = options.output or Path(f"scripts/results/{kind}_h200.json")
    output.parent.mkdir(parents=True, exist_ok=True)
    today = datetime.date.today().isoformat()
    result = {"device": device.name, "date": today, "commit": options.commit, "rows": rows}
    output.write_text(json.dumps(result, indent=1) + "\n")
    if not all(row["checked"] for row in rows):
        raise SystemExit("an output is wrong: see the rows without checked")


if __name__ == "__main__":
    main()
