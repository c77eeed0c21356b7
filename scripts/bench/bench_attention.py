"""Times sampled products and attention under sparse masks on this machine, beside torch.

Every case runs with the untuned default of its templates and with the configurations that `--knobs`
names; of sampled products also with the left side read ahead and not, Magicube's figure 13. Every
output element is compared before a time counts, which is the median over replays of a CUDA graph;
quantisation of q, k and v is part of it. Masks are random and just as sparse as a case's name says.

Rows are added to `--output` as they come, and a case that it has is left out: a run that was cut
off goes on where it ended. `--merge` puts the rows of several runs together. `--plot` draws a PNG
of what the file holds and needs matplotlib.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from cases.sparse_attention_cases import ATTENTION, SAMPLED
from checkout import commit
from peers.torch_masked import PEERS, TorchMasked
from sparse_attention_plot import draw

from autoq.devices import Host, require_device, resolve
from autoq.errors import AutoqError
from autoq.measure.job import Job, Timing
from autoq.scratch import scratch_folder, sweep
from autoq.search.knobs import plain_config
from autoq.templates.operators.sparse_attention import SparseAttention
from autoq.templates.registry import matching
from autoq.templates.workload import Workload
from autoq.tuning.opening import device_measurer
from autoq.tuning.options import TuneOptions


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


def jobs_of(workload: Workload, host: Host, knobs: list[dict[str, Any]]) -> list[Job]:
    """Every template's default, and of the first one those that knobs name, and figure 13's."""
    jobs = []
    for template in matching(workload, host.target):
        default = template.default(workload, host.target)
        space = template.space(workload, host.target)
        changes = list(knobs)
        if workload.operator == "sddmm":
            changes += [{"ahead": False}, {"ahead": True}]
        known = {field.name for field in dataclasses.fields(default)}
        named = [
            dataclasses.replace(default, **change) for change in changes if set(change) <= known
        ]
        legal = [default, *(config for config in named if config in space)]
        jobs += [Job(workload, template.name, config) for config in dict.fromkeys(legal)]
    return jobs


def measure_kernels(jobs: list[Job], host: Host, results: Results) -> None:
    """The kernels of autoq, each checked and timed."""
    rows = [
        {"workload": str(job.workload), "kernel": job.template, "config": plain_config(job.config)}
        for job in jobs
    ]
    missing = [place for place, row in enumerate(rows) if not results.has(row)]
    with scratch_folder() as scratch:
        measurer = device_measurer(host, TuneOptions(trials=1, timeout=60), scratch)
        try:
            futures = [(place, measurer.submit(jobs[place])) for place in missing]
            for place, future in futures:
                found = future.result()
                us = None if found.seconds is None else found.seconds * 1e6
                results.add({**rows[place], "us": us, "failure": found.failure})
        finally:
            measurer.close()


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


def knob_lists(text: str) -> list[dict[str, Any]]:
    """Configurations parted by semicolons, their knobs by commas: "warps=16,groups=4;slot=512"."""
    lists = []
    for part in filter(None, text.split(";")):
        pairs = (pair.split("=") for pair in part.split(","))
        lists.append({name: json.loads(value) for name, value in pairs})
    return lists


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--cases", default="", help="parts of names, comma-separated; default all")
    parser.add_argument("--knobs", default="", help=knob_lists.__doc__)
    parser.add_argument("--peers", default=",".join(PEERS), help="of torch; empty for none")
    parser.add_argument("--only-peers", action="store_true")
    parser.add_argument("--merge", type=Path, nargs="*", help="take these files' rows, no more")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
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
    require_device(host)
    sweep()
    results = Results(options.output, {"device": str(host.device), "driver": host.driver})
    parts = options.cases.split(",")
    cases = [case for case in (*SAMPLED, *ATTENTION) if any(part in str(case) for part in parts)]
    if not options.only_peers:
        jobs = [job for case in cases for job in jobs_of(case, host, knob_lists(options.knobs))]
        measure_kernels(jobs, host, results)
    names = [name for name in options.peers.split(",") if name]
    for case in cases:
        if case in ATTENTION and names:
            measure_peers(case, results, names)


if __name__ == "__main__":
    main()
