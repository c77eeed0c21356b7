"""Measures the fastest configurations of recorded spaces again, all in one run.

The fastest of a thousand trials is partly the luckiest of them, and spaces that were recorded in
several runs hold times of several cards and hours. `compile` writes the kernels of all that come
near a space's best, from any machine; `autoq record --compiled` measures them, more often than a
recording does; `compare` writes how far the new times are from the old ones, and `join` puts them
in their place.

    python scripts/contenders.py compile SPACES -o kernels --within 1.08
    autoq record --compiled kernels --repeat 25 -o again
    python scripts/contenders.py compare again SPACES -o contenders.json
    python scripts/contenders.py join again SPACES
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from autoq.devices import resolve
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings
from autoq.measure.job import REGISTRY, load_registry
from autoq.process.interrupt import StopOnSignal
from autoq.recording.bundle import BundleFolder
from autoq.recording.compiling import compile_ahead
from autoq.recording.known import joined, known_as
from autoq.recording.naming import file_name
from autoq.recording.plan import Planned
from autoq.records.recorded_space import SUFFIX, RecordedWorkload, read_space, write_space
from autoq.scratch import scratch_folder, sweep
from autoq.search.union import Candidate
from autoq.templates.base import Template
from autoq.templates.target import Target

_BUILD_SECONDS = 120.0


def contenders(
    space: RecordedWorkload, templates: dict[str, Template], target: Target, within: float
) -> Iterator[Planned]:
    """The trials of templates that are registered whose time is at most `within` times the best."""
    best = space.best_seconds
    for trial in space.trials:
        template = templates.get(trial.template)
        if template is None or template.version != trial.version or trial.seconds is None:
            continue
        if best is not None and trial.seconds <= within * best:
            config = template.space(space.workload, target).from_dict(trial.config)
            yield Planned(Candidate(trial.template, config), trial.drawn)


def compile_contenders(options: argparse.Namespace) -> None:
    """Write the kernels of every space's contenders; those that are there are left."""
    target, templates = resolve(options.target).target, load_registry(REGISTRY)
    sweep()
    with scratch_folder() as scratch, StopOnSignal() as signals:
        settings = BuildSettings(REGISTRY, target, None)
        builder = Builder(settings, options.jobs, _BUILD_SECONDS, scratch)
        try:
            for space in map(read_space, options.spaces):
                folder = options.output / file_name(space.workload)
                place = BundleFolder.create(folder, space.workload, target.arch)
                plan = contenders(space, templates, target, options.within)
                found = compile_ahead(place, plan, templates, builder, lambda: signals.requested)
                print(f"{space.workload}: {found.compiled} compiled, {found.known} were there")
        finally:
            builder.close()


def both_times(again: RecordedWorkload, before: RecordedWorkload) -> list[tuple[float, float]]:
    """Seconds before and again of the configurations that worked both times, fastest first."""
    old = {known_as(one.template, one.version, one.config): one.seconds for one in before.trials}
    pairs = [
        (old.get(known_as(one.template, one.version, one.config)), one.seconds)
        for one in again.trials
    ]
    return sorted((was, now) for was, now in pairs if was is not None and now is not None)


def compare(options: argparse.Namespace) -> None:
    """Write both times of every space's contenders, and how far they are apart."""
    cases = []
    for path in options.spaces:
        again = options.folder / path.name
        pairs = both_times(read_space(again), read_space(path)) if again.exists() else []
        if not pairs:
            continue
        ratios = np.array([now / was for was, now in pairs])
        apart = np.abs(ratios / np.median(ratios) - 1)
        cases.append({
            "workload": str(read_space(path).workload),
            "device": read_space(again).device.name,
            "again_over_before": round(float(np.median(ratios)), 4),
            "apart_median": round(float(np.median(apart)), 4),
            "apart_most": round(float(apart.max()), 4),
            "first_over_best": round(pairs[0][1] / min(now for _, now in pairs), 4),
            "before_us": [round(was * 1e6, 3) for was, _ in pairs],
            "again_us": [round(now * 1e6, 3) for _, now in pairs],
        })  # fmt: skip
        print({name: value for name, value in cases[-1].items() if not name.endswith("_us")})
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    options.output.write_text(json.dumps({"date": date, "cases": cases}) + "\n")


def join(options: argparse.Namespace) -> None:
    """Give each space the times of the folder's space of the same workload."""
    for path in options.spaces:
        again = options.folder / path.name
        if again.exists():
            size = write_space(path, joined(read_space(again), read_space(path)))
            print(f"{path.name}: {len(read_space(again).trials)} trials taken in, {size} bytes")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    compiling = verbs.add_parser("compile")
    compiling.add_argument("spaces", type=Path, nargs="+", help=f"files (*{SUFFIX})")
    compiling.add_argument("--within", type=float, default=1.08, help="times the best (1.08)")
    compiling.add_argument("--target", default="cuda:sm_90a")
    compiling.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    compiling.add_argument("-o", "--output", type=Path, required=True)
    compiling.set_defaults(run=compile_contenders)
    joining = verbs.add_parser("join")
    joining.add_argument("folder", type=Path, help="what autoq record wrote")
    joining.add_argument("spaces", type=Path, nargs="+", help="files that get the new times")
    joining.set_defaults(run=join)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("folder", type=Path, help="what autoq record wrote")
    comparing.add_argument("spaces", type=Path, nargs="+", help="files with the times before")
    comparing.add_argument("-o", "--output", type=Path, required=True)
    comparing.set_defaults(run=compare)
    options = parser.parse_args(arguments)
    options.run(options)


if __name__ == "__main__":
    main()
