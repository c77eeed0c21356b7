"""Times sampled products and attention under sparse masks on this machine, beside torch.

Every case runs with the untuned default of its templates and with the configurations that `--knobs`
names; of sampled products also with the left side read ahead and not, Magicube's figure 13. Every
output element is compared before a time counts, which is the median over replays of a CUDA graph;
quantisation of q, k and v is part of it. Masks are random and just as sparse as a case's name says.

`--prepare` compiles, packs and computes what outputs must be into `--work`, without a GPU; a run
finds there what is prepared and prepares the rest. Rows are added to `--output` as they come, and a
case that it has is left out: a run that was cut off goes on where it ended. `--merge` puts the rows
of several runs together. `--plot` draws a PNG of what the file holds and needs matplotlib.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import functools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from cases.sparse_attention_cases import ATTENTION, SAMPLED
from checkout import commit
from peers.torch_masked import PEERS, TorchMasked
from sparse_attention.plot import draw
from sparse_products.candidates import knob_lists
from sparse_products.kernels import JobsOf, SparseJob, measure, prepare, records

from autoq.devices import Host, require_device, resolve
from autoq.errors import AutoqError
from autoq.measure.job import Timing
from autoq.records.record import Record
from autoq.runtime.cuda.driver import Device
from autoq.templates.operators.sparse_attention import SparseAttention
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload


class Results:
    """A JSON file of rows of one device and driver, written anew with each row."""

    def __init__(self, path: Path, heading: dict[str, str]) -> None:
        self.path = path
        self._heading = heading
        self._of_row = {"date": str(datetime.date.today()), "commit": commit()}
        self.rows: list[dict[str, Any]] = []
        if path.exists():
            self.include(path)

    def include(self, path: Path) -> None:
        """Take over the rows of a file; raises SystemExit for one of another device."""
        held = json.loads(path.read_text())
        if {name: held[name] for name in self._heading} != self._heading:
            raise SystemExit(f"{path} is of {held['device']}, driver {held['driver']}")
        self.rows += [row for row in held["rows"] if not self.has(row)]

    def write(self) -> None:
        """Write all rows."""
        self.path.write_text(json.dumps({**self._heading, "rows": self.rows}, indent=1) + "\n")

    def has(self, row: dict[str, Any]) -> bool:
        """Whether a row of the same kernel of the same case is there."""
        names = ("workload", "kernel", "config")
        return any(all(row[name] == other[name] for name in names) for other in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        """Write a row."""
        us = row["us"] or float("nan")
        print(f"{us:9.2f} us  {row['workload']}  {row['kernel']} {row['config']} {row['failure']}")
        self.rows.append({**row, **self._of_row})
        self.write()


@dataclass(frozen=True)
class MaskedCase:
    """A workload under a random mask of its class."""

    workload: Workload

    @property
    def name(self) -> str:
        return str(self.workload)

    @property
    def sparsity(self) -> None:
        """The workload says it."""

    def arrays(self) -> tuple[Any, dict[str, Any]]:
        """Random activations and constants."""
        return self.workload.random_case(np.random.default_rng(0))


def jobs_of(
    number: int, case: MaskedCase, target: Target, knobs: list[dict[str, Any]]
) -> list[SparseJob]:
    """Every template's default, and of the first one those that knobs name, and figure 13's."""
    jobs, workload = [], case.workload
    for template in matching(workload, target):
        default = template.default(workload, target)
        space = template.space(workload, target)
        changes = list(knobs)
        if workload.operator == "sddmm":
            changes += [{"ahead": False}, {"ahead": True}]
        known = {field.name for field in dataclasses.fields(default)}
        named = [
            dataclasses.replace(default, **change) for change in changes if set(change) <= known
        ]
        legal = [default, *(config for config in named if config in space)]
        jobs += [SparseJob(number, template.name, config) for config in dict.fromkeys(legal)]
    return jobs


def measure_kernels(
    cases: list[MaskedCase], jobs: JobsOf, host: Host, results: Results, work: Path
) -> list[Record]:
    """The kernels of autoq, each checked and timed; their tuning records."""
    timing, found = Timing(), []
    folder, store = work / "cases", work / "kernels"
    if not folder.exists():
        for line in prepare(cases, jobs, folder, host.target, store, os.cpu_count() or 1):
            print(line)
    for number, case in enumerate(cases):
        known = [row for row in results.rows if row["workload"] == case.name]
        if any(not row["kernel"].startswith("torch") for row in known):
            continue
        for row in measure([(number, case)], folder, store, Device(0), host.target, timing):
            results.add({
                "workload": row["workload"], "kernel": row["template"], "config": row["config"],
                "us": row["us"], "failure": row["failure"],
            })  # fmt: skip
            found += records([case], [row], host, timing.repeat)
    return found


def measure_peers(workload: SparseAttention, results: Results, names: list[str]) -> None:
    """torch's ways to compute attention of the same shapes, once for all precisions."""
    plain = dataclasses.replace(workload, softmax_bits=8, qkv_bits=8)
    rows = [{"workload": str(plain), "kernel": f"torch {name}", "config": {}} for name in names]
    if all(map(results.has, rows)):
        return
    lone = dataclasses.replace(plain, batch=1, heads=1)
    torch_masked = TorchMasked(plain, lone.random_case(np.random.default_rng(5))[1])
    for name, row in zip(names, rows, strict=True):
        if results.has(row):
            continue
        try:
            us, failure = torch_masked.seconds(name, Timing()) * 1e6, None
        except (AutoqError, RuntimeError) as error:  # torch's root of CUDA errors
            us, failure = None, str(error).splitlines()[0][:200]
        results.add({**row, "us": us, "failure": failure})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--cases", default="", help="parts of names, comma-separated; default all")
    parser.add_argument("--knobs", default="", help=knob_lists.__doc__)
    parser.add_argument("--peers", default=",".join(PEERS), help="of torch; empty for none")
    parser.add_argument("--only-peers", action="store_true")
    parser.add_argument("--merge", type=Path, nargs="*", help="take these files' rows, no more")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--records", type=Path, help="file to append tuning records to")
    parser.add_argument("--prepare", action="store_true", help="stop before a GPU is needed")
    parser.add_argument("--work", type=Path, default=Path("build/attention"))
    parser.add_argument("--processes", type=int, default=2, help="of --prepare")
    options = parser.parse_args()
    if options.output is None and not options.prepare:
        parser.error("--output: name the JSON file")
    if options.merge:
        first = json.loads(options.merge[0].read_text())
        merged = Results(options.output, {name: first[name] for name in ("device", "driver")})
        for path in options.merge:
            merged.include(path)
        merged.write()
    if options.plot:
        draw(json.loads(options.output.read_text()), options.plot)
    if options.merge or options.plot:
        return
    host = resolve(options.target)
    parts = options.cases.split(",")
    cases = [case for case in (*SAMPLED, *ATTENTION) if any(part in str(case) for part in parts)]
    masked = list(map(MaskedCase, cases))
    jobs = functools.partial(jobs_of, target=host.target, knobs=knob_lists(options.knobs))
    if options.prepare:
        folders = (options.work / "cases", host.target, options.work / "kernels")
        for line in prepare(masked, jobs, *folders, options.processes):
            print(line)
        return
    require_device(host)
    results = Results(options.output, {"device": str(host.device), "driver": host.driver})
    if not options.only_peers:
        found = measure_kernels(masked, jobs, host, results, options.work)
        if options.records:
            with options.records.open("a") as file:
                file.writelines(record.to_line() + "\n" for record in found)
    names = [name for name in options.peers.split(",") if name]
    for case in cases:
        if case in ATTENTION and names:
            measure_peers(case, results, names)


if __name__ == "__main__":
    main()
