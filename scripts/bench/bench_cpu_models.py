"""Times quantised networks of products on this CPU beside onnxruntime and writes JSON.

Each network is quantised in two forms: every operator that onnxruntime quantises, and products
alone, with the rest in float32. autoq's untuned artifact, its tuned one and onnxruntime take turns
in one process, on equal threads; a time is the CPU time of the whole process, or the wall time,
and of each the least and the median over all turns.

    python scripts/bench/bench_cpu_models.py --tune-seconds 60 --output cpu_models.json
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization

from autoq import Session, compile, models
from autoq.quantization.quantize import quantize
from autoq.scratch import scratch_folder, sweep

sys.path.insert(0, str(Path(__file__).parents[1]))
from checkout import commit
from processor import cpu_in_words

INPUT = "input"
NETWORKS: dict[str, tuple[str, Callable[[], onnx.ModelProto], tuple[int, ...]]] = {
    "bert_layer": ("BERT-base, one layer, 128 tokens", models.bert, (1, 128, 768)),
    "mlp_mixer": ("MLP-Mixer-S/16, 224x224", models.mlp_mixer, (1, 3, 224, 224)),
}
"""A title, the float32 model and its input's shape."""
FORMS = ("every operator", "products alone")
THREADS = (1, 2)
ALLOWED_ERROR = 0.02
"""Mean error against onnxruntime's emulation, in units of the output's root mean square.
A sum whose rounding falls the other way moves some outputs by a step, but few."""
_SECONDS = 8.0
_TRIALS = 100_000


class _Samples(quantization.CalibrationDataReader):
    def __init__(self, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(0)
        self._samples = iter([{INPUT: rng.standard_normal(shape, np.float32)} for _ in range(3)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._samples, None)


def make(network: str, form: str, folder: Path) -> Path:
    """The path of a quantised network."""
    _, float_model, shape = NETWORKS[network]
    plain, path = folder / f"{network}.onnx", folder / f"{network}.{form.split()[0]}.onnx"
    onnx.save(float_model(), str(plain))
    if form == FORMS[0]:
        images = np.random.default_rng(0).standard_normal((4, *shape[1:]), np.float32)
        quantize(plain, {INPUT: images}, path)
        return path
    quantization.quantize_static(
        str(plain), str(path), _Samples(shape), quant_format=quantization.QuantFormat.QDQ,
        per_channel=True, op_types_to_quantize=["MatMul", "Gemm", "Conv"],
    )  # fmt: skip
    return path


def onnxruntime_session(
    model: Path, threads: int, optimised: bool = True
) -> onnxruntime.InferenceSession:
    """The model in onnxruntime, by default as it runs it itself, else as it is written."""
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    )
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return onnxruntime.InferenceSession(str(model), options, ["CPUExecutionProvider"])


def take_turns(works: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, Any]:
    """Microseconds of each of `works`: least and median, of CPU time and of wall time."""
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, work in works.items():
            time.sleep(0.02)  # idle threads of the one before spin for a while
            work()
            for _ in range(3):
                wall, cpu = time.perf_counter(), time.process_time()
                work()
                taken = time.process_time() - cpu, time.perf_counter() - wall
                samples[name].append(taken)
    result = {}
    for name, taken in samples.items():
        cpu_seconds, wall_seconds = zip(*taken, strict=True)
        result[name] = {
            f"{kind}_us_{how}": round(1e6 * of(values), 1)
            for kind, values in (("cpu", cpu_seconds), ("wall", wall_seconds))
            for how, of in (("least", min), ("median", statistics.median))
        }
    return result


def measured(model: Path, artifacts: Mapping[str, Path], threads: int) -> dict[str, Any]:
    """Times and errors of a model's artifacts in this process, which has so many threads."""
    peer, exact = onnxruntime_session(model, threads), onnxruntime_session(model, threads, False)
    shape = peer.get_inputs()[0].shape
    feeds = {INPUT: np.random.default_rng(1).standard_normal(shape, np.float32)}
    expected = exact.run(None, feeds)[0]
    sessions = {name: Session(path) for name, path in artifacts.items()}

    def errors_of(run: Callable[..., list[Any]]) -> dict[str, float]:
        """In units of the output's root mean square."""
        error = np.abs(run(None, feeds)[0] - expected) / np.sqrt((expected**2).mean())
        return {"mean_error": float(error.mean()), "largest_error": float(error.max())}

    runs = {name: session.run for name, session in sessions.items()} | {"onnxruntime": peer.run}
    errors = {name: errors_of(run) for name, run in runs.items()}
    for name in sessions:
        if not errors[name]["mean_error"] <= ALLOWED_ERROR:
            raise SystemExit(f"{model.name}, {name}: errors {errors}")
    works = {name: lambda run=run: run(None, feeds) for name, run in runs.items()}
    times = take_turns(works, _SECONDS)
    return {name: {**times[name], **errors[name]} for name in works}


def measured_in_child(model: Path, artifacts: Mapping[str, Path], threads: int) -> dict[str, Any]:
    """`measured` in a process whose thread pools have so many threads."""
    command = [sys.executable, __file__, "--worker", str(model), "--threads", str(threads)]
    command += [f"{name}={path}" for name, path in artifacts.items()]
    environment = {**os.environ, "TVM_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout))


def compiled(model: Path, folder: Path, tune_seconds: float) -> dict[str, Path]:
    """The model's artifacts, untuned and, if there is time for it, tuned."""
    artifacts = {"untuned": folder / f"{model.stem}.untuned.tar"}
    compile(model, target="cpu", output=artifacts["untuned"])
    if tune_seconds:
        records = folder / f"{model.stem}.jsonl"
        command = [sys.executable, "-m", "autoq", "tune", str(model), "--target", "cpu"]
        command += ["--time-budget", str(tune_seconds), "--trials", str(_TRIALS)]
        subprocess.run([*command, "--output", str(records)], check=True, stdout=sys.stderr)
        artifacts["tuned"] = folder / f"{model.stem}.tuned.tar"
        compile(model, target="cpu", output=artifacts["tuned"], tuning_records=records)
    return artifacts


def measure_all(networks: list[str], tune_seconds: float, folder: Path) -> list[dict[str, Any]]:
    """A case for every network, form and number of threads."""
    cases = []
    for network in networks:
        for form in FORMS:
            model = make(network, form, folder)
            artifacts = compiled(model, folder, tune_seconds)
            for threads in THREADS:
                times = measured_in_child(model, artifacts, threads)
                title = f"{NETWORKS[network][0]}, {form} int8"
                cases.append({
                    "case": title, "threads": threads, "load": round(os.getloadavg()[0], 1),
                    "date": datetime.date.today().isoformat(), "commit": commit(), **times,
                })  # fmt: skip
                print(json.dumps(cases[-1]), file=sys.stderr)
    return cases


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cases of an earlier file, those that were measured again in their new form."""
    cases = {(case["case"], case["threads"]): case for case in [*old, *new]}
    return list(cases.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--tune-seconds", type=float, default=0.0)
    parser.add_argument("--output", type=Path, help="JSON to write, or to bring up to date")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    parser.add_argument("artifacts", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        pairs = (text.split("=", 1) for text in options.artifacts)
        artifacts = {name: Path(path) for name, path in pairs}
        print(json.dumps(measured(options.worker, artifacts, options.threads)))
        return 0
    sweep()
    with scratch_folder() as folder:
        cases = measure_all(options.networks.split(","), options.tune_seconds, folder)
    result = {
        "device": cpu_in_words(),
        "onnxruntime": onnxruntime.__version__,
        "tune_seconds": options.tune_seconds,
    }
    if options.output:
        kept = json.loads(options.output.read_text())["cases"] if options.output.exists() else []
        result["cases"] = merged(kept, cases)
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
