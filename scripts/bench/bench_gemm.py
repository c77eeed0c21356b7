"""Times matrix products beside cuBLASLt on this machine, in one run.

The cases are first tuned for `--time-budget`, if that is given, into `--records`. The fastest
recorded configurations, or the untuned default, are then compiled, compared at every output element
and timed, as bench_conv.py does it, the fastest once more behind its peer and then in launches that
overlap. cuBLASLt computes the same product with the fastest of the algorithms that its heuristic
proposes, of bytes in int8, and of floats over weights that are dequantised beforehand. Of bytes it
scales sums and rounds them, which is what cases of `one scale` compute; the others have a scale of
each column, a bias and a zero point, as layers of quantised networks. A batch of products of two
activations is one of matrices that lie one behind the other, of bytes without zero points and with
rows filled up to multiples of 16. Attention in one kernel stands beside torch's fused kernels, of
bytes too in float16. A case marked `cold` rotates all buffers past the L2 cache.
Rows of cases that are measured replace those of the output file; each row has a date and a commit,
and quotes peers that are not run here with the dates of their times
(`dense_products/quoted_peers.py`). `--knobs` times the untuned default with other knobs instead,
every legal combination, and adds what each took to the row; give it an `--output` of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from checkout import commit
from compared_cases.candidates import Candidate, Kernels, autoq_runner, candidates
from compared_cases.knob_candidates import knob_candidates, knob_times
from compared_cases.report import case_row, cases_table, fastest, verdict
from dense_products.cases import Case, all_cases
from dense_products.quoted_peers import quoted
from peers.worker import PeerProcesses

import autoq
from autoq.devices import Host, require_device, resolve
from autoq.kernel.nvcc import nvcc_version
from autoq.libraries.ranking import PeerTime
from autoq.measure.job import Job, Measurement, Timing
from autoq.measure.runner import Runner
from autoq.process.child import ChildCrash, ChildError, ChildTimeout
from autoq.records.database import Database
from autoq.scratch import scratch_folder, sweep
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm

PEERS = {
    Gemm: ("cublaslt_int8", "autoq.libraries.byte_products:ByteProducts"),
    FloatGemm: ("cublaslt_float", "autoq.libraries.float_products:FloatProducts"),
    BatchedGemm: ("cublaslt_batched", "autoq.libraries.batched_products:BatchedProducts"),
    Attention: ("torch_attention", "peers.torch_attention:TorchAttention"),
}
"""The peer of each operator, and its class."""

_PREPARE_SECONDS, _PEER_SECONDS = 120.0, 60.0
_MOST_TRIALS = 1 << 20


def chosen(parts: str) -> list[Case]:
    """The cases named by comma-separated parts of names, in the order of these; all for none."""
    wanted = [part.strip() for part in parts.split(",") if part.strip()] or [""]
    matched = {case.name: case for part in wanted for case in all_cases() if part in case.name}
    if not matched:
        names = ", ".join(case.name for case in all_cases())
        raise SystemExit(f"--cases {parts!r} names none of {names}")
    return list(matched.values())


def tune(cases: Sequence[Case], host: Host, options: argparse.Namespace) -> None:
    """The cases that are timed hot and those that are timed cold, each for a share of the time."""
    for cold in (False, True):
        own = [case.workload for case in cases if case.cold == cold]
        if not own:
            continue
        summary = autoq.tune(
            own, target=host, trials=_MOST_TRIALS, output=options.records, cold=cold,
            time_budget=options.time_budget * len(own) / len(cases), cache_dir=options.cache,
        )  # fmt: skip
        print(f"{summary.measured} trials in {summary.elapsed_seconds:.0f} s", flush=True)


def _lesser(*found: PeerTime | str | None) -> PeerTime | str | None:
    """The lesser of a peer's times; the first reason where there is none."""
    times = [time for time in found if isinstance(time, PeerTime)]
    return min(times, key=lambda time: time.seconds, default=found[0])


def measure(
    case: Case, host: Host, ours: Mapping[Candidate, Any], runner: Runner,
    peers: Mapping[str, PeerProcesses], options: argparse.Namespace,
) -> dict[str, Any]:  # fmt: skip
    """One row of the results; autoq's fastest kernel and the peer are timed twice in turn.

    The lesser counts, and each timing comes behind an equal rest: what ran before decides how much
    power is left for a large product.
    """
    timing = Timing(repeat=options.repeat, cold=case.cold, rest_seconds=options.rest)
    measured: list[tuple[Job, str, Measurement]] = []
    for candidate, built in ours.items():
        result = Measurement(failure="compile", message=built.message)
        if built.kernel is not None:
            result = runner.submit(candidate.job, built.kernel, timing).result()
        measured.append((candidate.job, candidate.source, result))
    name, _ = PEERS[type(case.workload)]
    theirs = {name: peers[name].measure(case.workload, timing)} if name in peers else {}
    overlapped = None
    if (best := fastest(measured)) is not None:
        job, source = best[:2]
        kernel = ours[Candidate(job, source)].kernel
        if theirs:
            measured.append((job, source, runner.submit(job, kernel, timing).result()))
            theirs[name] = _lesser(theirs[name], peers[name].measure(case.workload, timing))
        if host.target.kind == "cuda":
            again = dataclasses.replace(timing, overlapped=True)
            overlapped = runner.submit(job, kernel, again).result()
    row = case_row(case.name, case.workload, host.target, measured, overlapped, theirs)
    us, row["quoted"] = row["autoq_us"], quoted(case.name, host.device)
    row["tops"] = us and case.workload.operations / us / 1e6
    row |= {"knobs": knob_times(measured)} if options.knobs else {}
    row |= {"cold": case.cold, "date": datetime.date.today().isoformat(), "commit": options.commit}
    return row


def start_peers(cases: Sequence[Case]) -> tuple[dict[str, PeerProcesses], dict[str, str]]:
    """The peers of the cases that are here, and the versions of all or why one is not."""
    peers, versions = {}, {}
    for operator, (name, place) in PEERS.items():
        workloads = [case.workload for case in cases if type(case.workload) is operator]
        if not workloads:
            continue
        peer = PeerProcesses(name, place, {}, _PREPARE_SECONDS, _PEER_SECONDS)
        try:
            (versions[name],) = {future.result() for future in peer.prepare(workloads)}
            peers[name] = peer
        except (ChildCrash, ChildError, ChildTimeout) as error:
            versions[name] = f"missing: {error}"
            print(f"{name}: {versions[name]}", flush=True)
            peer.close()
    return peers, versions


def opened(options: argparse.Namespace, host: Host) -> dict[str, Any]:
    """The results that the output file holds already; SystemExit when of another device."""
    if not options.output.exists():
        return {"device": host.device, "cases": []}
    earlier: dict[str, Any] = json.loads(options.output.read_text())
    if earlier["device"] != host.device:
        raise SystemExit(
            f"{options.output} is of {earlier['device']}, not {host.device}; give another --output"
        )
    return earlier


def run(cases: Sequence[Case], host: Host, options: argparse.Namespace) -> dict[str, Any]:
    """Measure all cases; the results so far are written after each."""
    result = opened(options, host)
    names = [case.name for case in all_cases()]
    database = Database.load([options.records] if options.records.exists() else [], shipped=True)
    with scratch_folder() as scratch:
        kernels = Kernels(host.target, options.cache or scratch, options.top * len(cases))
        runner = autoq_runner(host.target, scratch, Timing(repeat=options.repeat))
        peers: dict[str, PeerProcesses] = {}
        try:
            for work in (case.workload for case in cases):
                knobs = options.knobs and knob_candidates(work, host, options.knobs)
                kernels.start(knobs or candidates(work, host, database, options.top))
            peers, versions = start_peers(cases)
            result |= {"cuda": nvcc_version(), "peers": result.get("peers", {}) | versions}
            built = kernels.finish()
            for case in cases:
                ours = {c: b for c, b in built.items() if c.job.workload == case.workload}
                row = measure(case, host, ours, runner, peers, options)
                others = [old for old in result["cases"] if old["case"] != case.name]
                result["cases"] = sorted([*others, row], key=lambda item: names.index(item["case"]))
                options.output.parent.mkdir(parents=True, exist_ok=True)
                options.output.write_text(json.dumps(result, indent=1) + "\n")
                print(verdict(row), flush=True)
        finally:
            runner.close()
            kernels.close()
            for peer in peers.values():
                peer.close()
    return result


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--cases", default="", help="comma-separated parts of names, e.g. cold")
    parser.add_argument("--time-budget", type=float, default=0.0, metavar="SECONDS",
                        help="tune the cases for so long before they are timed")  # fmt: skip
    parser.add_argument("--records", type=Path, default=Path("gemm.jsonl"),
                        help="where tuning records go and are looked up")  # fmt: skip
    parser.add_argument("--cache", type=Path, help="folder of compiled kernels")
    parser.add_argument("--top", type=int, default=3,
                        help="records of a case to time, of each device of this chip")  # fmt: skip
    parser.add_argument("--knobs", type=json.loads, metavar="JSON",
                        help='values of knobs to time: {"split_k": [1, 2]}')  # fmt: skip
    parser.add_argument("--repeat", type=int, default=20, help="timings of each kernel")
    parser.add_argument("--rest", type=float, default=0.02, help="seconds before each timing")
    parser.add_argument("--output", type=Path, default=Path("scripts/results/gemm_h200.json"))
    parser.add_argument("--commit", default=commit(), help="recorded with each row")
    return parser.parse_args()


def main() -> None:
    options = parse()
    host = resolve(options.target)
    require_device(host)
    cases = chosen(options.cases)
    sweep()
    if options.time_budget:
        tune(cases, host, options)
    result, names = run(cases, host, options), {case.name for case in cases}
    print(cases_table(result["cases"], [name for name, _ in PEERS.values()]))
    if any(row["autoq_us"] is None for row in result["cases"] if row["case"] in names):
        raise SystemExit("a kernel of autoq failed; see above")


if __name__ == "__main__":
    main()
