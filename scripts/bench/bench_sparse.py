"""Times sparse products on this machine beside the dense product of the same extents, in one run.

Each sparse case runs with the untuned default of every template, Magicube's way among them, with
`--samples` drawn configurations, and with those that `--knobs` names, the dense one with the
default; every output element is compared before a time counts. Times are medians over replays of a
CUDA graph. `--output` is a JSON file with the device, its driver, the date and the commit; a case's
matrix comes up to the bounds of its class.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from cases.sparse_cases import CASES
from checkout import commit

from autoq.devices import Host, require_device, resolve
from autoq.measure.job import Job
from autoq.scratch import scratch_folder, sweep
from autoq.search.knobs import plain_config
from autoq.templates.element import element
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.spmm import Spmm
from autoq.templates.registry import matching
from autoq.templates.workload import Workload
from autoq.tuning.opening import device_measurer
from autoq.tuning.options import TuneOptions


def dense(workload: Spmm) -> Workload:
    """The dense product of the same extents, of float16 where values are wider than a byte."""
    m, n, k = workload.m, workload.n, workload.k
    if element(workload.weight_dtype).bits > 8 or element(workload.in_dtype).bits > 8:
        return FloatGemm(m, n, k, weight_dtype="float16")
    return Gemm(
        m, n, k, workload.weight_dtype, workload.in_dtype, workload.epilogue,
    )  # fmt: skip


def jobs_of(workload: Workload, host: Host, samples: int, knobs: list[dict[str, Any]]) -> list[Job]:
    """Every template's default; of the first one drawn configurations and the legal ones named."""
    first, *others = matching(workload, host.target)
    space = first.space(workload, host.target)
    configs = [first.default(workload, host.target)]
    named = (space.config_type(**{**vars(configs[0]), **each}) for each in knobs)
    configs += [config for config in named if config in space]
    configs += space.sample(np.random.default_rng(5), samples)
    jobs = [Job(workload, first.name, config) for config in dict.fromkeys(configs)]
    return jobs + [Job(workload, one.name, one.default(workload, host.target)) for one in others]


def knob_lists(text: str) -> list[dict[str, Any]]:
    """Configurations parted by semicolons, their knobs by commas: "columns=64,warps=16;parts=2"."""
    lists = []
    for part in filter(None, text.split(";")):
        pairs = (pair.split("=") for pair in part.split(","))
        lists.append({name: json.loads(value) for name, value in pairs})
    return lists


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--cases", default="", help="parts of names, comma-separated; default all")
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--knobs", default="", help=knob_lists.__doc__)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    host = resolve(options.target)
    require_device(host)
    parts = options.cases.split(",")
    cases = [case for case in CASES if any(part in str(case) for part in parts)]
    jobs = []
    for case in cases:
        jobs += jobs_of(dense(case), host, 0, [])[:1]
        jobs += jobs_of(case, host, options.samples, knob_lists(options.knobs))
    jobs = list(dict.fromkeys(jobs))
    sweep()
    with scratch_folder() as scratch:
        measurer = device_measurer(host, TuneOptions(trials=1, timeout=30), scratch)
        try:
            futures = [measurer.submit(job) for job in jobs]
            measured = [future.result() for future in futures]
        finally:
            measurer.close()
    rows = []
    for job, found in zip(jobs, measured, strict=True):
        us = None if found.seconds is None else found.seconds * 1e6
        rows.append(
            {"workload": str(job.workload), "template": job.template,
             "config": plain_config(job.config), "us": us, "failure": found.failure}
        )  # fmt: skip
        print(f"{us or float('nan'):9.2f} us  {job.workload}  {job.config} {found.message[:160]}")
    heading = {
        "device": str(host.device),
        "driver": host.driver,
        "date": str(datetime.date.today()),
        "commit": commit(),
    }
    options.output.write_text(json.dumps({**heading, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
