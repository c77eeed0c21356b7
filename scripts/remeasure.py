"""Measures the configurations of record files again, on this machine's device as it is now.

For records of an earlier version of a template, an earlier driver or another device, and for
configurations written by hand: a line needs `workload`, `template` and `config` only. Every output
element is checked, as in tuning, and every result becomes a record. Lines whose template no longer
takes the workload or the configuration are counted by reason.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import tvm

import autoq
from autoq.devices import require_device, resolve
from autoq.measure.job import REGISTRY, UNTRIED, Job, load_registry
from autoq.records.journal import Journal
from autoq.records.migration import migrated
from autoq.scratch import scratch_folder, sweep
from autoq.search.knobs import plain_config
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload_key import from_dict
from autoq.tuning.opening import device_measurer
from autoq.tuning.options import TuneOptions
from autoq.tuning.provenance import Provenance


def job_of(line: Mapping[str, Any], templates: Mapping[str, Template], target: Target) -> Job:
    """The candidate of a line; raises ValueError, with the reason, where there is none now."""
    workload = from_dict(line["workload"])
    template = templates.get(line["template"])
    if template is None:
        raise ValueError(f"unknown template {line['template']}")
    if not template.matches(workload, target):
        raise ValueError(f"{template.name} does not take its workload")
    space = template.space(workload, target)
    try:
        _, knobs = migrated(template.name, line.get("template_version", 0), line["config"])
        config = space.from_dict(knobs)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{template.name} has other knobs") from error
    if config not in space:
        raise ValueError(f"no longer legal in {template.name}")
    return Job(workload, template.name, config)


def read_jobs(
    paths: Iterable[Path], templates: Mapping[str, Template], target: Target
) -> tuple[list[Job], Counter[str]]:
    """The distinct candidates of the files, and how many lines were left out, by reason."""
    jobs: dict[Job, None] = {}
    left_out: Counter[str] = Counter()
    for path in paths:
        for text in path.read_text().splitlines():
            try:
                jobs[job_of(json.loads(text), templates, target)] = None
            except (KeyError, ValueError) as error:
                left_out[str(error)] += 1
    return list(jobs), left_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="record files (JSON lines)")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--cold", action="store_true", help="rotate buffers past the L2")
    parser.add_argument("--cache", type=Path, help="folder of compiled kernels")
    parser.add_argument("--output", type=Path, required=True, help="record file to append to")
    options = parser.parse_args()
    host = resolve(options.target)
    require_device(host)
    templates = load_registry(REGISTRY)
    jobs, left_out = read_jobs(options.files, templates, host.target)
    journal = Journal(options.output)
    started = time.perf_counter()
    failures: Counter[str] = Counter()
    sweep()
    with scratch_folder() as scratch:
        settings = TuneOptions(trials=1, cache_dir=options.cache, cold=options.cold)
        measurer = device_measurer(host, settings, scratch)
        provenance = Provenance(measurer.device, tvm.__version__, autoq.__version__)
        try:
            futures = [measurer.submit(job) for job in jobs]
            for job, future in zip(jobs, futures, strict=True):
                found = future.result()
                failures[found.failure or ""] += 1
                if found.failure == UNTRIED:
                    continue
                now = datetime.now(timezone.utc)
                template, knobs = templates[job.template], plain_config(job.config)
                journal.append([provenance.record(job.workload, template, knobs, found, now)])
        finally:
            measurer.close()
    right, elapsed = failures.pop("", 0), time.perf_counter() - started
    print(f"{right} right of {len(jobs)} in {elapsed:.1f} s; failures: {dict(failures) or 'none'}")
    for reason, count in left_out.most_common():
        print(f"{count} lines left out: {reason}")


if __name__ == "__main__":
    main()
