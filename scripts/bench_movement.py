"""Times the kernels that memory limits on this GPU against what their bytes cost.

Every output element is compared with numpy before a time counts. A time is the median over replays
of a CUDA graph of many launches, each started while the one before it drains, as in a model; the
operands then lie in the L2.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from checkout import commit

from autoq.graph import Operator, Step
from autoq.graph.operator_numpy import evaluate_operator
from autoq.graph.operators import operator_prim_func
from autoq.kernel import compile_kernel
from autoq.measure.cuda_bench import CudaBench
from autoq.measure.job import Timing
from autoq.measure.operands import random_case, stored_activations, stored_outputs
from autoq.measure.stopwatch import timings
from autoq.runtime.cuda_driver import Device
from autoq.runtime.kernel import Kernel
from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.registry import matching
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload

BANDWIDTH = 4.3e12
"""Bytes a second of an H200's memory."""
ALLOWED_RATIO, ALLOWED_SECONDS = 1.5, 2e-6
POISON = 0xA5
U8 = {"in_dtype": "uint8", "out_dtype": "uint8"}
BATCH = 8

GLOBAL_POOLS = ((112, 32), (56, 96), (56, 144), (28, 144), (28, 240), (14, 240), (14, 480),
                (14, 672), (7, 672), (7, 1152), (7, 1280), (7, 1024))  # fmt: skip
"""Height and width, and channels, of what EfficientNet-B0 and ShuffleNet-V2 average."""


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


def step(op: str, *arguments: int, dtype: str = "float32", **attributes: object) -> Step:
    return Step(op, arguments, dtype, tuple(sorted(attributes.items())))


def operators() -> Iterator[Operator]:
    """Programs: gates of squeeze and excitation, sums of two schemes, float32, structured ones."""
    requantised = {"scale": 0.013, "zero_point": -5, "low": -123.0, "high": 132.0}
    for op, shapes in _pairs():
        steps = (
            step("dequantize", 0, scale=0.02, zero_point=3),
            step("dequantize", 1, scale=0.0117, zero_point=100),
            step(op, 2, 3),
            step("quantize", 4, dtype="int8", **requantised),
        )
        yield _operator(steps, shapes, ("int8", "uint8"), shapes[0])
    image = (BATCH, 56, 56, 64)
    mixed = (step("dequantize", 0, scale=0.05, zero_point=3), step("Add", 2, 1), step("Relu", 3))
    yield _operator(mixed, (image, image), ("int8", "float32"), image)
    yield _operator((step("HardSwish", 0),), (image,), ("float32",), image)
    yield _operator((step("Sigmoid", 0), step("Mul", 0, 1)), (image,), ("float32",), image)
    tokens = (BATCH, 197, 768)
    yield _operator((step("Add", 0, 1),), (tokens, (768,)), ("float32", "float32"), tokens)
    yield _operator((step("Softmax", 0, axis=1),), ((BATCH, 1000),), ("float32",), (BATCH, 1000))
    scores = (BATCH, 12, 197, 197)
    yield _operator((step("Softmax", 0, axis=3),), (scores,), ("float32",), scores)
    mean = (*tokens[:2], 1)
    yield _operator((step("ReduceMean", 0, axes=(2,)),), (tokens,), ("float32",), mean)
    turned = (BATCH, 64, 56, 56)
    yield _operator(
        (step("Transpose", 0, dtype="int8", perm=(0, 3, 1, 2)),), (image,), ("int8",), turned
    )


def _pairs() -> Iterator[tuple[str, tuple[tuple[int, ...], ...]]]:
    for size, c in GLOBAL_POOLS[:10]:
        yield "Mul", ((BATCH, size, size, c), (BATCH, 1, 1, c))
    for size, c in ((56, 256), (14, 1024)):
        yield "Add", ((BATCH, size, size, c),) * 2


def _operator(
    steps: tuple[Step, ...], shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str],
    output: tuple[int, ...],
) -> Operator:  # fmt: skip
    names = tuple(f"x{index}" for index in range(len(shapes)))
    return Operator(steps, names, tuple(shapes), tuple(dtypes), (), "y", output, ("node",))


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


def case(item: Workload | Operator, target: Target, cache: Path | None) -> Case:
    """An item compiled, with random operands."""
    if isinstance(item, Operator):
        return operator_case(item, target, cache)
    return template_case(item, target, cache)


def template_case(workload: Workload, target: Target, cache: Path | None) -> Case:
    template = matching(workload, target)[0]
    config = template.default(workload, target)
    function = template.build(workload, config, target)
    kernel = compile_kernel(function, target, cache_dir=cache)
    activations, operands = random_case(workload, seed=3)
    inputs = [*stored_activations(workload, activations)]
    inputs += template.pack(workload, config, operands)
    (expected,) = stored_outputs(workload, workload.reference(activations, operands))
    return Case(str(workload), template.name, kernel, inputs, expected)


def operator_case(node: Operator, target: Target, cache: Path | None) -> Case:
    kernel = compile_kernel(operator_prim_func(node, target), target, cache_dir=cache)
    rng = np.random.default_rng(3)
    inputs = []
    for shape, dtype in zip(node.input_shapes, node.input_dtypes, strict=True):
        if dtype == "float32":
            inputs.append(rng.standard_normal(shape, np.float32))
        else:
            limits = np.iinfo(dtype)
            inputs.append(rng.integers(limits.min, limits.max + 1, shape).astype(dtype))
    sizes = " ".join("x".join(map(str, shape)) for shape in node.input_shapes)
    expected = evaluate_operator(node, inputs)
    return Case(f"{node.kind} {sizes}", "program", kernel, inputs, expected)


def measured(case: Case, device: Device) -> dict[str, Any]:
    """The case's row: microseconds a launch, its floor, and whether the output was right."""
    candidate = CudaBench(device, case.inputs, [case.expected]).load(case.kernel, ())
    checked = agrees(candidate.run_over(POISON)[0], case.expected)
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
        "floor_us": floor * 1e6,
        "ratio": overlapped / floor,
        "within": overlapped <= max(ALLOWED_RATIO * floor, floor + ALLOWED_SECONDS),
        "checked": checked,
    }


def agrees(got: np.ndarray, expected: np.ndarray) -> bool:
    """Equal integers; float32 within rounding of another order of sums."""
    if expected.dtype == np.float32:
        return np.allclose(got, expected, rtol=1e-4, atol=1e-5)
    return np.array_equal(got, expected)


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    was = f"{row['us_before']:8.2f}" if row.get("us_before") else " " * 8
    mark = "WRONG" if not row["checked"] else "" if row["within"] else "far"
    times = f"{was}{row['us']:8.2f} us, floor {row['floor_us']:6.2f}"
    return f"{times} {mark:5s} {row['kernel']:16s} {row['case']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("scripts/results/movement_h200.json"))
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--before", type=Path, help="results of an earlier commit to set beside")
    parser.add_argument("--cache-dir", type=Path, help="keeps machine code")
    parser.add_argument("--compile-only", action="store_true", help="fill --cache-dir, no GPU")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    compiled = partial(case, target=parse_target(options.target), cache=options.cache_dir)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        cases = list(pool.map(compiled, [*workloads(), *operators()]))
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
    options.output.parent.mkdir(parents=True, exist_ok=True)
    today = datetime.date.today().isoformat()
    result = {"device": device.name, "date": today, "commit": commit(), "rows": rows}
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    if not all(row["checked"] for row in rows):
        raise SystemExit("an output is wrong: see the rows without checked")


if __name__ == "__main__":
    main()
