"""Times the convolutions of int8 networks beside every peer on this machine, in one run.

For each case, autoq's fastest recorded configurations (or the untuned default, named as such) are
compiled, every output element is compared with the reference, and they are timed; then each peer
computes the same layer with int8 (cuDNN, cublasLt) or float16 (cuDNN through torch) activations.
Every time is a median over replays of a CUDA graph of back-to-back launches over the same buffers,
which are therefore hot in the L2 cache where they fit. autoq's fastest kernel of a case is then
timed with launches that overlap as well, as they do in its compiled models: each may start while
the one before it drains. Writes scripts/results/conv_<gpu>.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "cases"))
import grouped_cases
import resnet50_cases
from checkout import commit
from compared_cases.candidates import SEED, Candidate, Kernels, autoq_runner, candidates
from compared_cases.references import compute_references
from compared_cases.report import case_row, cases_table, fastest, verdict
from convolutions.names import case_name
from peers.layer import layer_of
from peers.worker import METASCHEDULE, PEERS, PeerProcesses

from autoq.devices import Host, require_device, resolve
from autoq.kernel.nvcc import nvcc_version
from autoq.measure.compile_worker import Built
from autoq.measure.job import Job, Measurement, Timing
from autoq.measure.runner import Runner
from autoq.process.child import ChildCrash, ChildError, ChildTimeout
from autoq.records.database import Database
from autoq.scratch import scratch_folder, sweep
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.target import Target

LIBRARIES = [name for name in PEERS if name != METASCHEDULE]

Convolution = Conv2d | FloatConv2d

LAYERS = {
    "resnet50": resnet50_cases.convolutions,
    "grouped": grouped_cases.convolutions,
    "float16": resnet50_cases.float_convolutions,
    "grouped-float16": grouped_cases.float_convolutions,
}

_MISSING = "missing"
_PREPARE_SECONDS = 300.0
_PEER_SECONDS = 20.0
_TRIAL_SECONDS = 10.0
# cuDNN compiles plans at run time, largely one after another in a process: on 16 cores 10 a second
# in one process, 30 in eight.
_PROCESSES = {"cudnn_int8": 6}


def compile_only(workloads: Sequence[Convolution], kernels: Kernels, references: Path) -> None:
    """Fill the cache with references while the kernels are being compiled; needs no GPU."""
    compute_references(workloads, references, SEED)
    failed = [(c, b.message) for c, b in kernels.finish().items() if b.kernel is None]
    for candidate, message in failed:
        print(f"{case_name(candidate.job.workload)} {candidate.job.template}: {message}")
    print(f"compiled {len(workloads)} cases, {len(failed)} kernels failed")


def start(
    peers: Sequence[PeerProcesses], workloads: Sequence[Convolution]
) -> dict[str, list[Future[str]]]:
    """Start all peers and have them plan, without waiting."""
    layers = list(dict.fromkeys(map(layer_of, workloads)))
    return {peer.name: peer.prepare(layers) for peer in peers}


def versions_of(started: Mapping[str, Sequence[Future[str]]]) -> dict[str, str]:
    """Versions of the peers once they have planned, or why a peer is not here."""
    versions = {}
    for name, futures in started.items():
        try:
            versions[name] = {future.result() for future in futures}.pop()
        except (ChildCrash, ChildError, ChildTimeout) as error:
            versions[name] = f"{_MISSING}: {error}"
    return versions


def measure_case(
    workload: Convolution,
    target: Target,
    ours: Mapping[Candidate, Built],
    runner: Runner,
    peers: Sequence[PeerProcesses],
    timing: Timing,
) -> dict[str, Any]:
    """One row of the results; see `compared_cases.report.case_row`."""
    measured: list[tuple[Job, str, Measurement]] = []
    for candidate, built in ours.items():
        if built.kernel is None:
            result = Measurement(failure="compile", message=built.message)
        else:
            result = runner.submit(candidate.job, built.kernel).result()
        measured.append((candidate.job, candidate.source, result))
    overlapped, best = None, fastest(measured)
    if best is not None and target.kind == "cuda":
        job, source, _ = best
        kernel = ours[Candidate(job, source)].kernel
        again = dataclasses.replace(timing, overlapped=True)
        overlapped = runner.submit(job, kernel, again).result()
    layer = layer_of(workload)
    theirs = {peer.name: peer.measure(layer, timing) for peer in peers}
    return case_row(case_name(workload), workload, target, measured, overlapped, theirs)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--layers", choices=LAYERS, default="resnet50",
                        help="of ResNet-50 or grouped ones, in bytes or in float16")  # fmt: skip
    parser.add_argument("--batches", default="1,8,128")
    parser.add_argument("--cases", default="", help="comma-separated parts of names, e.g. 3x3,stem")
    parser.add_argument("--peers", default=",".join(LIBRARIES), help="comma-separated, or none")
    parser.add_argument("--metaschedule", type=int, default=0, metavar="TRIALS",
                        help="also tune each case with TVM's MetaSchedule")  # fmt: skip
    parser.add_argument("--tuning-records", type=Path, action="append", default=[])
    parser.add_argument("--top", type=int, default=3,
                        help="records of a case to time, of each device of this chip")  # fmt: skip
    parser.add_argument("--repeat", type=int, default=20, help="timings of each kernel")
    parser.add_argument("--cache", type=Path, help="folder of kernels and references, for reuse")
    parser.add_argument("--compile-only", action="store_true",
                        help="only fill --cache, which needs no GPU")  # fmt: skip
    parser.add_argument("--output", type=Path, default=Path("scripts/results/conv_h200.json"))
    parser.add_argument("--commit", default=commit(), help="recorded in the output")
    options = parser.parse_args()
    if options.compile_only and options.cache is None:
        parser.error("--compile-only fills a folder: name it with --cache")
    return options


def chosen_cases(layers: str, batches: str, parts: str) -> list[Convolution]:
    """The distinct convolutions of some batches whose name contains one of the parts.

    layers: a key of LAYERS.
    """
    wanted = [part for part in parts.split(",") if part] or [""]
    return [
        workload
        for n in map(int, batches.split(","))
        for workload in LAYERS[layers](n)
        if isinstance(workload, Convolution) and any(part in case_name(workload) for part in wanted)
    ]


def peer_processes(options: argparse.Namespace) -> list[PeerProcesses]:
    """The peers that were asked for."""
    names = [name for name in options.peers.split(",") if name not in ("", "none")]
    unknown = sorted(set(names) - set(LIBRARIES))
    if unknown:
        raise SystemExit(f"--peers {unknown[0]!r} is unknown; choose from {', '.join(LIBRARIES)}")
    peers = [
        PeerProcesses(
            name, PEERS[name], {}, _PREPARE_SECONDS, _PEER_SECONDS, _PROCESSES.get(name, 1)
        )
        for name in names
    ]
    if options.metaschedule:
        settings = {"trials": options.metaschedule}
        seconds = _PEER_SECONDS + options.metaschedule * _TRIAL_SECONDS
        place = PEERS[METASCHEDULE]
        peers.append(PeerProcesses(METASCHEDULE, place, settings, _PREPARE_SECONDS, seconds))
    return peers


def run(
    options: argparse.Namespace, workloads: Sequence[Convolution], host: Host, kernels: Kernels,
    references: Path,
) -> dict[str, Any]:  # fmt: skip
    """Measure all cases; the results so far are written after each."""
    started = time.perf_counter()
    timing = Timing(repeat=options.repeat)
    peers = peer_processes(options)
    runner = autoq_runner(host.target, references, timing)
    try:
        planning = start(peers, workloads)
        device = runner.describe()
        versions = versions_of(planning)
        progress(started, f"peers are ready: {versions}")
        built = kernels.finish()
        progress(started, "kernels are ready")
        present = [peer for peer in peers if not versions[peer.name].startswith(_MISSING)]
        result = {
            "device": device.name,
            "driver": device.driver,
            "cuda": nvcc_version() if host.target.kind == "cuda" else "",
            "date": datetime.date.today().isoformat(),
            "commit": options.commit,
            "peers": versions,
            "buffers": "hot: every launch uses the same ones",
            "cases": [],
        }
        for workload in workloads:
            ours = {c: b for c, b in built.items() if c.job.workload == workload}
            row = measure_case(workload, host.target, ours, runner, present, timing)
            result["cases"].append(row)
            result["seconds"] = round(time.perf_counter() - started, 1)
            save(result, options.output)
            progress(started, verdict(row))
    finally:
        runner.close()
        for peer in peers:
            peer.close()
    print(cases_table(result["cases"], [peer.name for peer in peers]))
    return result


def progress(started: float, text: str) -> None:
    """A line with the seconds since `started`."""
    print(f"{time.perf_counter() - started:6.1f} s  {text}", flush=True)


def save(result: Mapping[str, Any], path: Path) -> None:
    """Write the results, so that a run which is ended early leaves what it has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    options = parse()
    host = resolve(options.target)
    if not options.compile_only:
        require_device(host)
    workloads = chosen_cases(options.layers, options.batches, options.cases)
    if not workloads:
        raise SystemExit(f"no case of batches {options.batches} has {options.cases!r} in its name")
    database = Database.load(options.tuning_records, shipped=True)
    sweep()
    with scratch_folder() as scratch:
        cache = options.cache or scratch
        references = cache / "references"
        references.mkdir(parents=True, exist_ok=True)
        kernels = Kernels(host.target, cache / "kernels", options.top * len(workloads))
        try:
            for workload in workloads:
                kernels.start(candidates(workload, host, database, options.top))
            if options.compile_only:
                compile_only(workloads, kernels, references)
                return
            result = run(options, workloads, host, kernels, references)
        finally:
            kernels.close()
    if any(row["autoq_us"] is None for row in result["cases"]):
        raise SystemExit("a kernel of autoq failed; see the messages above")


if __name__ == "__main__":
    main()
