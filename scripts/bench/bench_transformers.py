"""Times whole transformers and their relatives beside torch on a GPU, or onnxruntime on this CPU.

    python scripts/bench/bench_transformers.py --compile-only --cases vit,bert128   # no GPU's time
    python scripts/bench/bench_transformers.py --cases vit,bert128 --torch-compile 60
    python scripts/bench/bench_transformers.py --target cpu --batch 1 --image 96

Models, artifacts and what onnxruntime makes of the inputs stay in `--models`, so that a run that
was cut off goes on where it ended. A model whose output is off is not timed. autoq and its peers
take turns in one process; a time is the median of all turns, on a CPU the process's own. Beside it
stand the fastest and the slowest turn, since a graph may have two speeds. Rows join those of the
result file, each with its date and commit.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autoq import Session, compile
from autoq.devices import Host, require_device, resolve

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench_cpu_models import onnxruntime_session, take_turns
from checkout import commit
from processor import cpu_in_words
from transformer_networks.models import FEED_SEED, Case, cases, expected, made

ALLOWED_ERROR = 0.03
"""Mean error against onnxruntime's float32 emulation, in units of the output's root mean square; a
quarter more than onnxruntime's own kernels of integers err where that is more."""
TURNS, REPLAYS = 8, 25
WARM_UP = 3
_CPU_SECONDS = 8.0


def artifact(
    case: Case, name: str, host: Host, records: list[Path], folder: Path
) -> tuple[Path, float]:
    """The path of a case's compiled model, made anew each time, and the seconds that took."""
    path = folder / f"{name}.{host.target.kind}.tar"
    model = made(case, name, folder)
    started = time.perf_counter()
    compile(model, target=host, output=path, tuning_records=records, cache_dir=folder / "kernels")
    return path, time.perf_counter() - started


def errors_of(case: Case, model: Path, session: Session) -> dict[str, float]:
    """Mean and largest error over all output elements, in units of their root mean square."""
    wanted, own = expected(case, model)
    wanted = wanted.astype(np.float64)
    (found,) = session.run(None, {"input": case.feed(FEED_SEED)})
    error = np.abs(found - wanted) / np.sqrt((wanted**2).mean())
    errors = {"mean_error": float(error.mean()), "largest_error": float(error.max())}
    errors["onnxruntime_error"] = own
    if not errors["mean_error"] <= max(ALLOWED_ERROR, 1.25 * own):
        raise SystemExit(f"{case.title}: errors {errors}")
    return errors


def layers_of(session: Session) -> list[dict[str, Any]]:
    """Kernels that compute the same, with what they take, those that take longest first."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for item in session.profile():
        call = item.call
        row = rows.setdefault((call.workload, call.template, call.source), {
            "workload": call.workload, "template": call.template, "source": call.source,
            "first": call.layer, "count": 0, "us": 0.0, "roofline_us": 0.0,
        })  # fmt: skip
        row["count"] += 1
        row["us"] += item.seconds * 1e6
        row["roofline_us"] += call.roofline_seconds * 1e6
    return sorted(rows.values(), key=lambda row: -row["us"])


class TooLong(Exception):
    """A peer took longer to prepare than it may."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TooLong in the main thread when the block has not ended after so many seconds."""

    def ring(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def torch_works(case: Case, compile_seconds: float) -> dict[str, Callable[[], Any]]:
    """A whole inference of the case in float16, by a CUDA graph and by torch.compile.

    The latter is left out where compiling takes longer than `compile_seconds`; 0: in any case.
    """
    import torch
    from transformer_networks.in_torch import NETWORKS

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    model = NETWORKS[case.network](case.shape).eval().half().cuda()
    x = torch.from_numpy(case.feed(FEED_SEED)).cuda()
    if not case.tokens:
        model = model.to(memory_format=torch.channels_last)
        x = x.half().to(memory_format=torch.channels_last)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode():
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(WARM_UP):
                model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            model(x)
    works: dict[str, Callable[[], Any]] = {"torch_fp16_cuda_graph": graph.replay}
    if compile_seconds:
        # Another case's length would make this one's dynamic, and its kernels slower.
        fast = torch.compile(model, mode="reduce-overhead", dynamic=False)

        def run() -> Any:
            with torch.inference_mode():
                return fast(x)

        try:
            with at_most(compile_seconds):
                for _ in range(WARM_UP + 2):
                    run()
            works["torch_fp16_compile"] = run
        except Exception as error:  # torch wraps whatever ends a compilation, TooLong among it
            print(f"{case.title}: no torch.compile in {compile_seconds:.0f} s: {error!r:.200}")
    return works


def device_seconds(work: Callable[[], Any]) -> float:
    """Median seconds by CUDA events."""
    import torch

    samples = []
    for _ in range(REPLAYS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        stop.synchronize()
        samples.append(start.elapsed_time(stop) / 1e3)
    return statistics.median(samples)


def turns(session: Session, works: Mapping[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Microseconds of each turn of autoq and of its peers."""
    samples: dict[str, list[float]] = {"autoq": [], **{name: [] for name in works}}
    for _ in range(TURNS):
        samples["autoq"].append(session.run_seconds(REPLAYS))
        for name, work in works.items():
            samples[name].append(device_seconds(work))
    return {name: [round(one * 1e6, 1) for one in taken] for name, taken in samples.items()}


def on_gpu(case: Case, model: Path, path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Errors, times and a profile of one case on the GPU."""
    session = Session(path)
    errors = errors_of(case, model, session)
    works = {} if options.no_peers else torch_works(case, options.torch_compile)
    taken = turns(session, works)
    times = {name: round(statistics.median(own), 1) for name, own in taken.items()}
    return {
        "autoq_us": times.pop("autoq"), "peers": times,
        "ranges_us": {name: [min(own), max(own)] for name, own in taken.items()}, **errors,
        "kernels": len(session.plan.calls), "layers": layers_of(session),
    }  # fmt: skip


def on_cpu(case: Case, model: Path, path: Path) -> dict[str, Any]:
    """Errors and times of one case in this process, on the threads that it was started with."""
    threads = int(os.environ["TVM_NUM_THREADS"])
    session, peer = Session(path), onnxruntime_session(model, threads)
    feeds = {"input": case.feed(FEED_SEED)}
    errors = errors_of(case, model, session)
    works = {"autoq": session.run, "onnxruntime": peer.run}
    taken = take_turns(
        {name: lambda run=run: run(None, feeds) for name, run in works.items()}, _CPU_SECONDS
    )
    return {
        "autoq_us": taken["autoq"]["cpu_us_median"],
        "peers": {"onnxruntime": taken["onnxruntime"]["cpu_us_median"]},
        "threads": threads, "load": round(os.getloadavg()[0], 1), "times": taken, **errors,
        "kernels": len(session.plan.calls), "layers": layers_of(session)[:10],
    }  # fmt: skip


def on_cpu_in_child(name: str, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    """`on_cpu` in a process whose thread pools have so many threads."""
    command = [sys.executable, __file__, "--worker", "--target", "cpu", "--cases", name]
    command += ["--batch", str(options.batch), "--image", str(options.image)]
    command += ["--models", str(options.models)]
    environment = {**os.environ, "TVM_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout))


def write(output: Path, row: dict[str, Any], device: dict[str, Any]) -> None:
    """Put a row into the result file in the place of an earlier one of its case."""
    old = json.loads(output.read_text())["cases"] if output.exists() else []
    rows = {(each["case"], each.get("threads")): each for each in [*old, row]}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({**device, "cases": list(rows.values())}, indent=1) + "\n")
    times = "  ".join(f"{name} {value:.0f}" for name, value in row["peers"].items())
    print(f"{row['case']}: autoq {row['autoq_us']:.0f} us  {times}", flush=True)


def options_of_command() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--cases", default=",".join(cases()))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--image", type=int, default=224, help="height and width in pixels")
    parser.add_argument("--tuning-records", type=Path, action="append", default=[])
    parser.add_argument("--models", type=Path, default=Path("build/transformers"))
    parser.add_argument(
        "--output", type=Path, help="scripts/results/transformers_*.json by default"
    )
    parser.add_argument("--compile-only", action="store_true", help="do what needs no GPU")
    parser.add_argument("--compiled", action="store_true", help="artifacts are of --compile-only")
    parser.add_argument("--no-peers", action="store_true", help="time autoq alone")
    parser.add_argument(
        "--torch-compile", type=float, default=0.0, metavar="SECONDS",
        help="time torch.compile too, if it has compiled a case after so long",
    )  # fmt: skip
    parser.add_argument(
        "--warm-peers", action="store_true",
        help="compile torch's networks alone, which TORCHINDUCTOR_CACHE_DIR keeps for later runs",
    )  # fmt: skip
    parser.add_argument("--threads", default="1,2", help="numbers of threads on a CPU")
    parser.add_argument("--commit", default=commit(), help="recorded in the output")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = options_of_command()
    known = cases(options.batch, options.image)
    host = resolve(options.target)
    options.models.mkdir(parents=True, exist_ok=True)
    cuda = host.target.kind == "cuda"
    if cuda and not options.compile_only:
        require_device(host)
    default = "transformers_h200.json" if cuda else "transformers_cpu.json"
    output = options.output or Path(__file__).parents[1] / "results" / default
    device = {"device": host.device} if cuda else {"device": cpu_in_words()}
    for name in options.cases.split(","):
        case, model = known[name], options.models / f"{name}.onnx"
        path = options.models / f"{name}.{host.target.kind}.tar"
        if options.warm_peers:
            torch_works(case, options.torch_compile)
            continue
        if options.worker:
            print(json.dumps(on_cpu(case, model, path)))
            return
        seconds: float | None = None
        if not options.compiled:
            path, seconds = artifact(case, name, host, options.tuning_records, options.models)
            expected(case, model)
        if options.compile_only:
            print(f"{case.title}: compiled in {seconds:.1f} s", flush=True)
            continue
        stamp = {
            "case": case.title, "date": datetime.date.today().isoformat(),
            "commit": options.commit, "compile_seconds": seconds,
        }  # fmt: skip
        if cuda:
            write(output, {**stamp, **on_gpu(case, model, path, options)}, device)
            continue
        for threads in map(int, options.threads.split(",")):
            write(output, {**stamp, **on_cpu_in_child(name, threads, options)}, device)


if __name__ == "__main__":
    main()
