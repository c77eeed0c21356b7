"""Times products of floats with weights of 4 bits on this CPU, in turn with onnxruntime.

Each is a model of one MatMulNBits, compiled untuned. onnxruntime runs it as it stands, in float32,
and with accuracy_level 4, which lets it round the activations to bytes, a scale for each block of
k. All of them take turns in one process; there is one for each number of threads. An artifact whose
results are off is not timed.

    python scripts/bench/bench_cpu_four_bits.py --output scripts/results/cpu_four_bits.json
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from autoq import Session, compile
from autoq.scratch import scratch_folder, sweep

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench_cpu_models import merged, onnxruntime_session, take_turns
from checkout import commit
from processor import cpu_in_words

THREADS = (1, 2)
PEERS = {"onnxruntime": 0, "onnxruntime_bytes": 4}
"""Names of onnxruntime's ways and their accuracy_level."""
ALLOWED_ERROR = {"float32": 1e-5, "float16": 2.0**-10}
"""Largest error in units of the output's root mean square, but for the last rounding of float16."""
_SECONDS = 4.0


@dataclass(frozen=True)
class Product:
    """x [m, k] of a dtype times 4-bit weights [n, k] in groups, with zero points or without."""

    m: int
    n: int
    k: int
    group: int = 32
    zero_points: bool = False
    dtype: str = "float32"

    def __str__(self) -> str:
        zeros = ", zero points" if self.zero_points else ""
        return f"{self.m} x {self.n} x {self.k}, {self.dtype}, groups of {self.group}{zeros}"


PRODUCTS = (
    *(Product(m, n, n) for n in (1024, 2048, 4096) for m in (1, 16, 128)),
    *(Product(m, 4096, 4096, 128, True) for m in (1, 16)),
    *(Product(m, 4096, 4096, dtype="float16") for m in (1, 16)),
)


def model(product: Product, accuracy_level: int = 0) -> onnx.ModelProto:
    """A MatMulNBits of random weights, the same at every call."""
    rng = np.random.default_rng(0)
    groups = product.k // product.group
    constants = {
        "weight": rng.integers(0, 256, (product.n, groups, product.group // 2)).astype(np.uint8),
        "scale": (rng.uniform(0.5, 1.5, product.n * groups) / 64).astype(product.dtype),
    }
    if product.zero_points:
        constants["zero"] = rng.integers(0, 256, product.n * -(-groups // 2)).astype(np.uint8)
    node = helper.make_node(
        "MatMulNBits", ["x", *constants], ["y"], domain="com.microsoft", bits=4, K=product.k,
        N=product.n, block_size=product.group, accuracy_level=accuracy_level,
    )  # fmt: skip
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(product.dtype))
    graph = helper.make_graph(
        [node], "product",
        [helper.make_tensor_value_info("x", kind, [product.m, product.k])],
        [helper.make_tensor_value_info("y", kind, [product.m, product.n])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def exact(product: Product, x: np.ndarray) -> np.ndarray:
    """The product in double precision."""
    arrays = {i.name: numpy_helper.to_array(i) for i in model(product).graph.initializer}
    packed = arrays["weight"].reshape(product.n, -1)
    values = np.stack([packed & 15, packed >> 4], -1).reshape(product.n, -1, product.group)
    zeros: Any = 8
    if product.zero_points:
        pairs = arrays["zero"].reshape(product.n, -1)
        zeros = np.stack([pairs & 15, pairs >> 4], -1).reshape(product.n, -1)
        zeros = zeros[:, : values.shape[1], None].astype(np.float64)
    scale = arrays["scale"].astype(np.float64).reshape(product.n, -1, 1)
    weight = (values.astype(np.float64) - zeros) * scale
    result: np.ndarray = x.astype(np.float64) @ weight.reshape(product.n, -1).T
    return result


def measured(product: Product, threads: int, folder: Path) -> dict[str, Any]:
    """Times and errors of a product in this process, which has so many threads."""
    x = np.random.default_rng(1).standard_normal((product.m, product.k), np.float32)
    feeds = {"x": x.astype(product.dtype)}
    path = folder / "product.onnx"
    runs = {}
    for name, level in PEERS.items():
        onnx.save(model(product, level), path)
        runs[name] = onnxruntime_session(path, threads).run
    compile(path, target="cpu", output=folder / "product.autoq")
    runs = {"autoq": Session(folder / "product.autoq").run, **runs}
    right = exact(product, feeds["x"])
    spread = np.sqrt(np.mean(right**2))
    errors = {
        name: float(np.abs(run(None, feeds)[0] - right).max() / spread)
        for name, run in runs.items()
    }
    allowed = ALLOWED_ERROR[product.dtype] * max(1.0, float(np.abs(right).max() / spread))
    if not errors["autoq"] <= allowed:
        raise SystemExit(f"{product}: errors {errors}")
    times = take_turns(
        {name: lambda run=run: run(None, feeds) for name, run in runs.items()}, _SECONDS
    )
    return {name: {**times[name], "largest_error": errors[name]} for name in runs}


def measured_in_child(product: Product, threads: int, folder: Path) -> dict[str, Any]:
    """`measured` in a process whose thread pools have so many threads."""
    command = [sys.executable, __file__, "--worker", json.dumps(asdict(product))]
    command += ["--threads", str(threads), "--folder", str(folder)]
    environment = {**os.environ, "TVM_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="JSON to write, or to bring up to date")
    parser.add_argument("--only", default="", help="products whose title contains this")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        product = Product(**json.loads(options.worker))
        print(json.dumps(measured(product, options.threads, options.folder)))
        return 0
    sweep()
    cases = []
    with scratch_folder() as folder:
        for product in PRODUCTS:
            for threads in THREADS if options.only in str(product) else ():
                cases.append({
                    "case": str(product), "threads": threads, "device": cpu_in_words(),
                    **measured_in_child(product, threads, folder),
                    "load": round(os.getloadavg()[0], 1),
                    "date": datetime.date.today().isoformat(), "commit": commit(),
                })  # fmt: skip
                print(json.dumps(cases[-1]), file=sys.stderr)
    if options.output:
        kept = json.loads(options.output.read_text())["cases"] if options.output.exists() else []
        result = {"onnxruntime": onnxruntime.__version__, "cases": merged(kept, cases)}
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
