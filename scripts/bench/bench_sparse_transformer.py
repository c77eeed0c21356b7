"""Times Transformer encoders whose attention is under a sparse mask, beside dense ones of torch.

    python scripts/bench/bench_sparse_transformer.py --compile-only --processes 12
    python scripts/bench/bench_sparse_transformer.py --output sparse_transformer_h200.json

The networks are those of Magicube's figure 17: four encoder layers, heads of 64 values. autoq's is
the ONNX of `autoq.models.sparse_transformer` under `--precision attention8-8` and the like, torch's
has the same weights in float16, no mask, and the fastest of its dense attentions. Before a time
counts, autoq's whole output is compared with torch's under the mask, in float32. All masks and
precisions of a shape and torch replay CUDA graphs in turn. Rows join those of the output; a case
that it has is left out. `--compile-only` leaves artifacts in `--models`, which a later call takes.
`--plot` draws a PNG of what the output holds and needs matplotlib.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from autoq import Session
from autoq.devices import require_device, resolve

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench_transformers import device_seconds
from checkout import commit
from sparse_attention.transformer_cases import PRECISIONS, Case, Shape, compiled, grid
from sparse_attention.transformer_peer import Torch
from sparse_attention.transformer_plot import draw

ALLOWED_ERROR = {"attention16-8": 0.03, "attention8-8": 0.03, "attention8-4": 0.2}
"""Root mean square of the error over that of the output. 4 bits of q, k and v lose most."""
TURNS, REPLAYS = 5, 15
_LARGEST_KERNELS, _PROFILES = 6, 3


def compile_case(case: Case, target: str, records: Sequence[Path], folder: Path) -> float:
    """Compile a case that has no artifact; the seconds that it took."""
    start = time.perf_counter()
    if not case.artifact(folder).exists():
        compiled(case, resolve(target), records, folder)
    return time.perf_counter() - start


def compile_all(cases: Sequence[Case], options: argparse.Namespace) -> None:
    """Compile cases, several at once."""
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        arguments = (options.target, options.tuning_records, options.models)
        futures = {pool.submit(compile_case, case, *arguments): case for case in cases}
        for future in as_completed(futures):
            print(f"{futures[future]}: compiled in {future.result():.0f} s", flush=True)


def error_of(case: Case, session: Session, wanted: np.ndarray) -> float:
    """The error over all elements as a share of the output; SystemExit where it is too large."""
    (found,) = session.run(None, {"input": case.shape.feed()})
    error = float(np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2)))
    if not error <= ALLOWED_ERROR[case.precision]:
        raise SystemExit(f"{case}: the root mean square of the error is {error:.3f} of the output")
    return error


def times_in_turn(
    sessions: Mapping[Case, Session], works: Mapping[str, Callable[[], Any]]
) -> dict[Any, float]:
    """Microseconds of all cases of a shape and of torch, each the median over turns."""
    samples: dict[Any, list[float]] = {name: [] for name in (*sessions, *works)}
    for _ in range(TURNS):
        for case, session in sessions.items():
            samples[case].append(session.run_seconds(REPLAYS))
        for name, work in works.items():
            samples[name].append(device_seconds(work))
    return {name: round(statistics.median(each) * 1e6, 1) for name, each in samples.items()}


def kernels_of(session: Session) -> dict[str, float]:
    """What the kernels that take longest take together, in microseconds."""
    taken: dict[str, float] = {}
    for item in session.profile(_PROFILES):
        taken[item.call.workload] = taken.get(item.call.workload, 0.0) + item.seconds * 1e6
    largest = sorted(taken.items(), key=lambda each: -each[1])[:_LARGEST_KERNELS]
    return {name: round(us, 1) for name, us in largest}


def measured(shape: Shape, cases: Sequence[Case], folder: Path) -> list[dict[str, Any]]:
    """Rows of the cases of a shape: error, times, and what the kernels take."""
    peer = Torch(shape)
    sessions, errors = {}, {}
    for _, of_mask in itertools.groupby(cases, key=lambda case: case.sparsity):
        own = list(of_mask)
        wanted = peer.masked(own[0].mask)
        for case in own:
            sessions[case] = Session(case.artifact(folder))
            errors[case] = error_of(case, sessions[case], wanted)
    works = peer.dense()
    times = times_in_turn(sessions, works)
    return [
        {
            "case": str(case), "autoq_us": times[case], "peers": {n: times[n] for n in works},
            "error": round(errors[case], 5), "kernels_us": kernels_of(session),
            "date": str(datetime.date.today()), "commit": commit(),
        }
        for case, session in sessions.items()
    ]  # fmt: skip


def measure_all(cases: Sequence[Case], options: argparse.Namespace) -> None:
    """Add the rows of the cases that the output lacks, shape after shape."""
    host = resolve("cuda")
    require_device(host)
    path = options.output
    held = json.loads(path.read_text()) if path.exists() else {"cases": []}
    rows, known = held["cases"], {row["case"] for row in held["cases"]}
    missing = [case for case in cases if str(case) not in known]
    heading = {"device": host.device, "driver": host.driver}
    for shape, of_shape in itertools.groupby(missing, key=lambda case: case.shape):
        start, own = time.perf_counter(), list(of_shape)
        for case in own:
            compile_case(case, "cuda", options.tuning_records, options.models)
        rows += measured(shape, own, options.models)
        path.write_text(json.dumps({**heading, "cases": rows}, indent=1) + "\n")
        print(f"{shape}: {time.perf_counter() - start:.1f} s", flush=True)
        for row in rows[-len(own) :]:
            dense = min(row["peers"].values())
            print(f"  {row['case']}: {row['autoq_us']:.0f} us, {dense / row['autoq_us']:.2f} "
                  f"times torch's {dense:.0f}, error {row['error']}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--only", default="", help="words that a case's name has, parted by commas")
    parser.add_argument("--tuning-records", type=Path, action="append", default=[])
    parser.add_argument("--models", type=Path, default=Path("build/sparse_transformer"))
    parser.add_argument("--compile-only", action="store_true", help="launch nothing on a GPU")
    parser.add_argument("--target", default="cuda:sm_90a", help="of --compile-only")
    parser.add_argument("--processes", type=int, default=2, help="of --compile-only")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    options.models.mkdir(parents=True, exist_ok=True)
    words = [word for word in options.only.split(",") if word]
    wanted = [
        case
        for case in grid(options.precisions.split(","))
        if all(word in str(case) for word in words)
    ]
    if options.compile_only:
        compile_all(wanted, options)
        return
    if options.output is None:
        raise SystemExit("--output: name the JSON file")
    if options.plot:
        draw(json.loads(options.output.read_text()), options.plot)
        return
    measure_all(wanted, options)


if __name__ == "__main__":
    main()
