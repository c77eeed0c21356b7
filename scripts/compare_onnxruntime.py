"""Compares a compiled model with onnxruntime: every output element, and the time of a run.

Answers are compared with onnxruntime at ORT_DISABLE_ALL, which computes the quantised model as it
is written; times with onnxruntime at its default optimisation, on as many threads.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import tvm.runtime
from onnx import numpy_helper

from autoq import Session
from autoq.errors import ArtifactError
from autoq.quantization.four_bits import holds_four_bits

FLOAT_TOLERANCE = 1e-4
"""Largest error of a float32 model, relative to the largest expected value."""


def output_steps(model: onnx.ModelProto) -> dict[str, float]:
    """The size of one quantisation step of each output, by name; float32 outputs are left out."""
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    steps = {}
    for output in model.graph.output:
        if output.type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
            steps[output.name] = 1.0
        for node in model.graph.node:
            if output.name in node.output and node.op_type == "DequantizeLinear":
                steps[output.name] = float(np.max(values[node.input[1]]))
    return steps


def onnxruntime_session(
    path: Path, optimised: bool, threads: int, four_bits: bool
) -> onnxruntime.InferenceSession:
    """The model in onnxruntime on the CPU."""
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    )
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if four_bits:  # its fusions would give operators 4-bit inputs that they do not take
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def random_feeds(session: Session, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Normal numbers for float32 inputs, the whole range for integers."""
    feeds = {}
    for item in session.get_inputs():
        if item.dtype == "float32":
            feeds[item.name] = rng.standard_normal(item.shape, np.float32)
        else:
            limits = np.iinfo(item.dtype)
            feeds[item.name] = rng.integers(
                limits.min, limits.max, item.shape, item.dtype, endpoint=True
            )
    return feeds


def compare(name: str, found: np.ndarray, expected: np.ndarray, step: float | None) -> bool:
    """Print how far `found` is from `expected`; whether every element is close enough."""
    if found.shape != expected.shape or not np.isfinite(found.astype(np.float64)).all():
        print(f"{name}: {list(found.shape)} instead of {list(expected.shape)}, or not finite")
        return False
    error = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    if step is None:
        relative = float(error.max() / max(np.abs(expected).max(), 1e-30))
        print(f"{name}: {found.size} elements, largest relative error {relative:.2g}")
        return relative <= FLOAT_TOLERANCE
    steps = np.rint(error / step)
    differing = int(np.count_nonzero(steps))
    print(f"{name}: {found.size} elements, {differing} differ, the worst by {steps.max():.0f} "
          f"quantisation steps (one step is {step:.4g})")  # fmt: skip
    return bool(steps.max() <= 1)


def median_seconds(works: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Median time of each of `works`, taking turns so that other load strikes all of them."""
    samples: dict[str, list[float]] = {name: [] for name in works}
    turns = 10
    for _ in range(turns):
        for name, work in works.items():
            time.sleep(0.05)  # idle threads of the one before spin for a while
            for _ in range(3):
                work()
            end = time.perf_counter() + seconds / turns / len(works)
            while time.perf_counter() < end:
                start = time.perf_counter()
                work()
                samples[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in samples.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="ONNX file")
    parser.add_argument("artifact", type=Path, help="what autoq compile made of it")
    parser.add_argument("--samples", type=int, default=4, help="random inputs to compare")
    parser.add_argument("--seconds", type=float, default=8.0, help="of timing")
    options = parser.parse_args()
    try:
        ours = Session(options.artifact)
    except ArtifactError as error:
        parser.error(str(error))
    threads = tvm.runtime.num_threads()
    model = onnx.load(str(options.model))
    four_bits = holds_four_bits(model)
    exact = onnxruntime_session(options.model, False, threads, four_bits)
    fast = onnxruntime_session(options.model, True, threads, four_bits)
    steps = output_steps(model)
    names = [item.name for item in ours.get_outputs()]
    rng = np.random.default_rng(1)
    good = True
    feeds: dict[str, np.ndarray] = {}
    for _ in range(options.samples):
        feeds = random_feeds(ours, rng)
        expected = exact.run(names, feeds)
        for name, found, wanted in zip(names, ours.run(names, feeds), expected, strict=True):
            good &= compare(name, found, wanted, steps.get(name))
    taken = median_seconds(
        {"autoq": lambda: ours.run(names, feeds), "onnxruntime": lambda: fast.run(names, feeds)},
        options.seconds,
    )
    where = "this CPU" if ours.plan.target_kind == "cpu" else f"{ours.plan.arch}"
    print(f"autoq on {where}: {taken['autoq'] * 1e3:.2f} ms; onnxruntime {onnxruntime.__version__} "
          f"on this CPU, {threads} threads, default optimisation: "
          f"{taken['onnxruntime'] * 1e3:.2f} ms")  # fmt: skip
    ratio = taken["autoq"] / taken["onnxruntime"]
    print(f"autoq takes {ratio:.2f} times onnxruntime's time")
    print("outputs agree" if good else "outputs differ by more than one quantisation step")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
