"""Times products with pruned weights beside dense ones on this GPU, in one run.

Each case runs with the untuned default of every template that knows its pattern, or with the knobs
that `--knobs` names, those of one template behind its name and a colon. Beside them are cuBLASLt's
dense product and what else `pruned_products` has. Every output element is compared with the
reference. Times are medians over replays of a CUDA graph: of the whole in launches that overlap as
in a model (`us`), alone (`alone_us`), and of its first stage. `--rest` pauses before each timing.
`--prepare` compiles kernels, packs weights and computes references into `--cache`, which needs no
GPU. A row replaces that of the same kernel, or library, and case in the output file, and each has a
date and a commit; of cases that are measured, rows of configurations that are no more go.
`--networks` measures the layers of `pruned_networks.py` in place of 4096 cubed, and
`--convolutions` ResNet-50's of 3x3. `--dense` measures beside them, once for each product, the
kernel that compile chooses where no zeros are known, and others of its template that `--knobs`
names. `--without-wgmma` measures those as well that a GPU without wgmma has.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from cases.pruned_cases import PrunedCase, cases, convolutions
from cases.pruned_networks import NETWORKS, network_cases
from checkout import commit
from compared_cases.row_lines import text_of
from pruned_products.joining import joined, of_today
from pruned_products.kernels import Asked, Candidate, Prepared, prepare, prepared
from pruned_products.peers import PEERS, peer_times

from autoq.devices import require_device, resolve
from autoq.measure.check import complaints
from autoq.measure.cuda_bench import CudaBench
from autoq.measure.job import Timing
from autoq.measure.stopwatch import in_turn
from autoq.runtime.cuda.driver import Device

TIMING = Timing(repeat=9, min_seconds=2e-3, overlapped=True)
"""As `pruned_products.peers` times libraries; their launches do not overlap."""
_SECONDS_BETWEEN = 1.0
"""The output file of many rows takes long to write."""


def right(found: np.ndarray, case: Prepared, threads: ThreadPoolExecutor) -> str | None:
    """What is wrong with an output, compared by rows; None for nothing."""
    (expected,) = case.expected
    check = partial(complaints, workload=case.workload, target=case.target)
    parts = [np.array_split(array, 16) for array in (found, expected)]
    lines = threads.map(lambda part: check([part[0]], [part[1]]), zip(*parts, strict=True))
    return next((line for line in lines if line), None)


def timed(
    candidate: Candidate, case: Prepared, bench: CudaBench, timing: Timing,
    threads: ThreadPoolExecutor,
) -> dict[str, Any]:  # fmt: skip
    """What is measured of a kernel: microseconds, of the whole and of its first stage."""
    kernel = candidate.kernel
    row: dict[str, Any] = {"template": candidate.template, "config": candidate.config, "us": None}
    if candidate.dense:
        row["dense"] = True
    if kernel is None:
        return {**row, "failure": candidate.failure}
    whole = bench.load(kernel, candidate.packed)
    found = (right(whole.run_over(poison)[0], case, threads) for poison in (0x55, 0xFF))
    row["failure"] = next((line for line in found if line), None)
    watches = [whole.stopwatch(timing), whole.stopwatch(replace(timing, overlapped=False))]
    if len(kernel.launches) > 1:
        first = bench.load(replace(kernel, launches=kernel.launches[:1]), candidate.packed)
        watches.append(first.stopwatch(timing))
    us, alone, *turn = (float(np.median(times)) * 1e6 for times in in_turn(watches, timing))
    row |= {"us": us, "alone_us": alone, "turning_us": sum(turn)}
    return {**row, "spills": kernel.spill_bytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default="", help="parts of names, comma-separated; default all")
    parser.add_argument("--networks", help="their layers instead: parts of names, comma-separated")
    parser.add_argument("--convolutions", action="store_true")
    parser.add_argument("--dense", action="store_true")
    parser.add_argument("--without-wgmma", action="store_true")
    parser.add_argument("--knobs", action="append", default=[], help="[template:] name=value ...")
    parser.add_argument("--peers", default=",".join(PEERS), help=", ".join(PEERS))
    parser.add_argument("--rest", type=float, default=0.0, help="seconds")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--processes", type=int, default=None, help="that prepare")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    parts = options.cases.split(",")
    known = convolutions() if options.convolutions else cases()
    if options.networks is not None:
        named = options.networks.split(",")
        known = network_cases(
            network for name, network in NETWORKS.items() if any(part in name for part in named)
        )
    chosen = [case for case in known if any(part in case.name for part in parts)]
    knobs = tuple(tuple(text.split()) for text in options.knobs or [""])
    asked = Asked(knobs, resolve("cuda"), options.dense, options.without_wgmma)
    if options.prepare:
        context = get_context("spawn")
        with ProcessPoolExecutor(options.processes, mp_context=context) as pool:
            for done in pool.map(prepare, chosen, repeat(asked), repeat(options.cache)):
                print(*done, sep="\n", flush=True)
        return
    require_device(asked.host)
    run(options, chosen, asked)


def run(options: argparse.Namespace, chosen: list[PrunedCase], asked: Asked) -> None:
    """Measure every case, then peers, keeping the output file up to date."""
    host = asked.host
    rows: list[dict[str, Any]] = []
    timing = replace(TIMING, rest_seconds=options.rest)
    if options.output and options.output.exists():
        rows = json.loads(options.output.read_text())["rows"]
    dated = {"date": str(datetime.date.today()), "commit": commit()}

    written = [time.monotonic()]

    def write() -> None:
        if options.output:
            heading = {"device": str(host.device), "driver": host.driver}
            options.output.write_text(text_of({**heading, "rows": rows}))
        written[0] = time.monotonic()

    def add(case: PrunedCase, row: dict[str, Any]) -> None:
        rows[:] = joined(rows, {"case": case.name, **row, **dated})
        print(case.name, *(value for name, value in row.items() if name != "spills"), flush=True)
        if time.monotonic() - written[0] > _SECONDS_BETWEEN:
            write()

    # Rows of kernels without wgmma stay where none of them is asked for.
    targets = [each.target for each in replace(asked, without_wgmma=True).hosts]
    of_dense: dict[Any, dict[str, Any]] = {}
    with ThreadPoolExecutor(min(16, len(os.sched_getaffinity(0)))) as threads:
        for case in chosen:
            made = prepared(case, asked, options.cache)
            rows[:] = of_today(rows, case.name, made.workload, targets)
            shapes = [np.empty(s.shape, s.dtype) for s in made.workload.outputs]
            bench = CudaBench(Device(0), made.activations, shapes)
            for candidate in made.candidates:
                once = case.dense, json.dumps(candidate.config)
                row = of_dense.get(once) if candidate.dense else None
                row = row or timed(candidate, made, bench, timing, threads)
                if candidate.dense:
                    of_dense[once] = row
                add(case, row)
            del bench
    for case, row in peer_times(chosen, [name for name in options.peers.split(",") if name]):
        add(case, row)
    write()
    if any(row.get("failure") for row in rows if row.get("template")):
        sys.exit("some outputs are wrong")


if __name__ == "__main__":
    main()
