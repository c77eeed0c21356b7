"""Runs configurations of the CUDA templates on this CPU, from their PTX, each output compared.

For every workload of the case files (a module with CASES: workloads, or pairs that end in one) and
every template that matches, the default and some sampled configurations run on the emulator of
`tests/ptx`, with asynchronous operations at once and as late as possible. Prints what is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from case_files import load_cases

from autoq.errors import BuildError
from autoq.templates.registry import matching
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from ptx.emulate import EmulationFault
from ptx.kernels import wrong
from ptx.program import UnknownInstruction


def candidates(workload: Workload, target: Target, options: argparse.Namespace) -> list[Any]:
    """Templates with their default and sampled configurations, none twice."""
    names = {name for name in options.templates.split(",") if name}
    found = []
    for template in matching(workload, target):
        if names and template.name not in names:
            continue
        configs = [template.default(workload, target)]
        drawn = template.space(workload, target).sample(
            np.random.default_rng(options.seed), options.samples
        )
        found += [(template, c) for c in [*configs, *(c for c in drawn if c != configs[0])]]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path, nargs="+")
    parser.add_argument("--target", default="cuda:sm_90a", help="comma-separated")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--templates", default="", help="comma-separated; default all that match")
    parser.add_argument("--modes", default="eager,late")
    parser.add_argument(
        "--most-operations", type=float, default=1e8, help="leave out larger workloads"
    )
    options = parser.parse_args()
    workloads = [workload for path in options.cases for workload in load_cases(path)]
    started, count, failures = time.process_time(), 0, 0
    for target in map(parse_target, options.target.split(",")):
        for workload in workloads:
            if workload.operations > options.most_operations:
                continue
            for template, config in candidates(workload, target, options):
                try:
                    complaint = wrong(template, workload, config, target, options.modes.split(","))
                except (BuildError, EmulationFault, UnknownInstruction) as error:
                    complaint = f"{type(error).__name__}: {error}"
                count += 1
                if complaint is not None:
                    failures += 1
                    print(f"{target.arch} {template.name} {workload} {config}: {complaint}")
                    sys.stdout.flush()
    seconds = time.process_time() - started
    print(f"{count} configurations, {failures} wrong, {seconds:.0f} s of this process")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
