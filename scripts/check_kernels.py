"""Checks and times configurations of the kernel templates on this machine's device.

For every workload of the case files (a module with CASES: workloads, or pairs that end in one)
and every template that matches, the default and some sampled configurations run in killable
processes; every output element is compared. Prints failures and the fastest of each template.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from case_files import load_cases

from autoq.devices import require_device, resolve
from autoq.measure.job import Job
from autoq.scratch import scratch_folder, sweep
from autoq.templates.registry import matching
from autoq.templates.workload import Workload
from autoq.templates.workload_key import to_dict
from autoq.tuning.opening import device_measurer
from autoq.tuning.options import TuneOptions


def jobs_of(workload: Workload, target: Any, samples: int, names: set[str]) -> list[Job]:
    """The default and `samples` sampled configurations of every matching template."""
    jobs = []
    for template in matching(workload, target):
        if names and template.name not in names:
            continue
        configs = [template.default(workload, target)]
        space = template.space(workload, target)
        rng = np.random.default_rng(3)
        configs += [c for c in space.sample(rng, samples) if c != configs[0]]
        jobs += [Job(workload, template.name, config) for config in configs]
    return jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path, nargs="+")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--templates", default="", help="comma-separated; default all that match")
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("--output", type=Path, help="JSON lines of every result")
    options = parser.parse_args()
    host = resolve(options.target)
    require_device(host)
    names = {name for name in options.templates.split(",") if name}
    workloads = [workload for path in options.cases for workload in load_cases(path)]
    jobs = [job for w in workloads for job in jobs_of(w, host.target, options.samples, names)]
    started = time.perf_counter()
    results = []
    sweep()
    with scratch_folder() as scratch:
        settings = TuneOptions(trials=1, timeout=options.timeout)
        measurer = device_measurer(host, settings, scratch)
        try:
            futures = [measurer.submit(job) for job in jobs]
            results = [(job, future.result()) for job, future in zip(jobs, futures, strict=True)]
        finally:
            measurer.close()
    elapsed = time.perf_counter() - started
    report(results, elapsed, options.output)


def report(results: list[tuple[Job, Any]], elapsed: float, output: Path | None) -> None:
    """Print the table and failures; write JSON lines."""
    lines = []
    for workload in dict.fromkeys(job.workload for job, _ in results):
        for name in dict.fromkeys(job.template for job, _ in results if job.workload == workload):
            own = [(j, m) for j, m in results if j.workload == workload and j.template == name]
            good = [m.seconds for _, m in own if m.seconds is not None]
            default = own[0][1].seconds
            best = f"{min(good) * 1e6:9.2f}" if good else "        -"
            first = f"{default * 1e6:9.2f}" if default is not None else "   FAILED"
            print(f"{name:20} {workload!s:36} default {first} us  best {best} us  "
                  f"{len(good)}/{len(own)} right")  # fmt: skip
    for job, m in results:
        lines.append({"workload": to_dict(job.workload), "template": job.template,
                      "config": vars(job.config), "seconds": m.seconds, "failure": m.failure,
                      "message": m.message})  # fmt: skip
        if m.failure:
            print(f"{m.failure}: {job.template} {job.workload} {job.config}: {m.message[:200]}")
    failed = Counter(m.failure for _, m in results if m.failure)
    print(f"{len(results)} configurations in {elapsed:.1f} s ({len(results) / elapsed:.1f}/s), "
          f"failures: {dict(failed) or 'none'}")  # fmt: skip
    if output:
        output.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
