"""How far a recorded best is a lucky one: the leaders of recorded spaces timed again, side by side.

    python scripts/bench/searching/bench_leaders.py compile -o KERNELS
    python scripts/bench/searching/bench_leaders.py measure KERNELS -o leaders.json

A space's best is the least of many times, each measured once, so it is less than that
configuration takes. `compile` needs no device: of each space it takes the fastest configurations,
the defaults, and controls, which were drawn among those that are somewhat slower and so are no
luckier than any. With `--expected` it also takes what a model of records expects to be the fastest,
some of which the clock may have made slow. `measure` times those of a space in turn, in several
passes that begin anew, and writes the result after each space: of every configuration its rank in
the recorded order, the recorded time and the medians of the passes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from autoq.devices import require_device, resolve
from autoq.knowledge.lessons import Lesson
from autoq.knowledge.model import KnowledgeModel, load_model
from autoq.knowledge.shipped import FILE
from autoq.knowledge.training import gathered, lessons_of
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings
from autoq.measure.job import REGISTRY, Job, Timing, load_registry
from autoq.recording.bundle import BundleFolder, bundle_folders
from autoq.recording.compiling import compile_ahead
from autoq.recording.devices import opened_measurers
from autoq.recording.kept_kernels import Place
from autoq.recording.naming import file_name
from autoq.recording.options import RecordOptions
from autoq.recording.plan import Planned
from autoq.records.recorded_space import DEFAULT
from autoq.replaying.loading import shipped_spaces
from autoq.scratch import scratch_folder
from autoq.search.knobs import plain_config
from autoq.search.union import Candidate

sys.path.insert(0, str(Path(__file__).parents[2]))
from checkout import commit

_TIMING = Timing(repeat=5, min_seconds=1e-3, budget_seconds=0.2, rest_seconds=0.002)
_MODEL = Path(__file__).parents[3] / "tuning_logs/h200" / FILE
_PASSES = 3
_LEADERS = 20
_SLOWER = 1.05, 1.5
"""Controls take so many times the best recorded time."""


def large_spaces(paths: Sequence[Path], device: str, least: int) -> list[Lesson]:
    """The spaces of a device with so many configurations."""
    spaces = [one for one in gathered(paths) if one.device.name == device]
    large = [one for one in spaces if len(one.trials) >= least]
    return lessons_of(large, load_registry(REGISTRY))


def expected(lesson: Lesson, model: KnowledgeModel | None, count: int) -> list[int]:
    """The trials that a model expects to be the fastest, none without one."""
    if model is None:
        return []
    slowness, _ = model.doubted(lesson.matrix(model.columns))
    worked = np.where(np.isfinite(lesson.seconds), slowness, np.inf)
    return np.argsort(worked, kind="stable")[:count].tolist()


def wanted(lesson: Lesson, leaders: int, controls: int, others: Sequence[int] = ()) -> list[int]:
    """Trials to time again: the fastest ones, others, the defaults, and controls."""
    order = np.argsort(lesson.seconds, kind="stable")
    found = dict.fromkeys(order[:leaders].tolist()) | dict.fromkeys(others)
    found |= dict.fromkeys(i for i, drawn in enumerate(lesson.drawn) if drawn == DEFAULT
                           and np.isfinite(lesson.seconds[i]))  # fmt: skip
    ratio = lesson.seconds / lesson.seconds.min()
    slower = [i for i in np.flatnonzero((ratio > _SLOWER[0]) & (ratio < _SLOWER[1])).tolist()
              if i not in found]  # fmt: skip
    drawn = np.random.default_rng(0).permutation(len(slower))[:controls]
    return [*found, *(slower[i] for i in drawn)]


def compile_leaders(options: argparse.Namespace) -> None:
    """Write the kernels, the fastest configurations of all spaces first."""
    lessons = large_spaces(options.spaces or shipped_spaces(), options.device, options.least)
    target, templates = resolve("cuda:sm_90a").target, load_registry(REGISTRY)
    model = load_model(options.knowledge) if options.expected else None
    trials = {
        one.workload: wanted(
            one, options.leaders, options.controls, expected(one, model, options.expected)
        )
        for one in lessons
    }
    with scratch_folder() as scratch:
        builder = Builder(BuildSettings(REGISTRY, target, None), options.jobs, 120.0, scratch)
        try:
            for first in range(0, max(map(len, trials.values())), options.run):
                for one in lessons:
                    folder = options.output / file_name(one.workload)
                    place = BundleFolder.create(folder, one.workload, target.arch)
                    plan = [
                        Planned(Candidate(one.templates[i], one.configs[i]), one.drawn[i])
                        for i in trials[one.workload][first : first + options.run]
                    ]
                    count = compile_ahead(place, plan, templates, builder, lambda: False)
                    print(one.workload, count, flush=True)
        finally:
            builder.close()


def compiled_jobs(folder: BundleFolder, lesson: Lesson) -> dict[int, tuple[Job, Place]]:
    """The trials of a space whose kernels a folder has, by their rows."""
    trials = zip(lesson.templates, lesson.configs, strict=True)
    rows = {_name(name, plain_config(config)): i for i, (name, config) in enumerate(trials)}
    found = {}
    for one in folder.compiled:
        row = rows[_name(one.template, one.config)]
        if one.place is not None:
            job = Job(lesson.workload, one.template, lesson.configs[row])
            found[row] = job, (folder, one)
    return found


def _name(template: str, config: Any) -> str:
    return json.dumps([template, config], sort_keys=True)


def measure(options: argparse.Namespace) -> None:
    """Time what was compiled; the result is written after each space and pass."""
    host = resolve(options.target)
    require_device(host)
    lessons = large_spaces(options.spaces or shipped_spaces(), host.device, options.least)
    folders = {one.workload: one for one in bundle_folders(options.source)}
    jobs = {
        one.workload: compiled_jobs(folders[one.workload], one)
        for one in lessons if one.workload in folders
    }  # fmt: skip
    places = {job: place for own in jobs.values() for job, place in own.values()}
    result = {
        "device": host.device, "commit": options.commit, "passes": _PASSES,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "cases": [],
    }  # fmt: skip
    cases = {one.workload: case_of(one, [*jobs[one.workload]])
             for one in lessons if one.workload in jobs}  # fmt: skip
    result["cases"] = list(cases.values())
    with (
        scratch_folder() as scratch,
        opened_measurers(host, RecordOptions(), scratch, places) as (measurer,),
    ):
        for _ in range(_PASSES):
            for workload, case in cases.items():
                own = [job for job, _ in jobs[workload].values()]
                times = measurer.compare(own, _TIMING).result()
                for i, row in enumerate(case["configurations"]):
                    seconds = None if times is None else times[i].seconds
                    row["us"].append(None if seconds is None else round(seconds * 1e6, 4))
                case["summary"] = summary(case["configurations"])
                options.output.write_text(json.dumps(result, indent=1) + "\n")
                print(case["workload"], case["summary"], flush=True)


def summarise(options: argparse.Namespace) -> None:
    """Write the summary of each space's times anew."""
    result = json.loads(options.source.read_text())
    for case in result["cases"]:
        case["summary"] = summary(case["configurations"])
        print(case["name"], case["summary"])
    options.output.write_text(json.dumps(result, indent=1) + "\n")


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the passes say of a space.

    deviation: of a median of one pass from that of all, relative; controls_over_recorded: the
    median ratio of the times of controls to their recorded ones, which says how the device differs,
    and leaders_over_recorded that of the fastest; recorded_best_over_best: what the recorded best
    takes over the fastest of all now, which has the rank `best` among the recorded.
    """
    timed = [one for one in rows if one["us"] and None not in one["us"]]
    times = np.array([one["us"] for one in timed])
    median = np.median(times, axis=1)
    over = median / np.array([one["recorded_us"] for one in timed])
    ranks = np.array([one["rank"] for one in timed])
    leaders = ranks < _LEADERS
    best = int(np.argmin(median))
    return {
        "deviation": round(float(np.std(times / median[:, None])), 4),
        "controls_over_recorded": round(float(np.median(over[~leaders])), 4),
        "leaders_over_recorded": round(float(np.median(over[leaders])), 4),
        "recorded_best_over_best": round(float(median[np.argmin(ranks)] / median[best]), 4),
        "best": int(ranks[best]),
    }


def case_of(lesson: Lesson, rows: Sequence[int]) -> dict[str, Any]:
    """A space's entry of the result, without times yet."""
    rank = np.argsort(np.argsort(lesson.seconds, kind="stable"), kind="stable")
    return {
        "workload": str(lesson.workload), "name": file_name(lesson.workload),
        "recorded": len(lesson.seconds),
        "configurations": [
            {"rank": int(rank[i]), "template": lesson.templates[i], "drawn": lesson.drawn[i],
             "recorded_us": round(float(lesson.seconds[i] * 1e6), 4), "us": []}
            for i in rows
        ],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    ahead = verbs.add_parser("compile", help="write the kernels; needs no device")
    ahead.add_argument("--device", default="NVIDIA H200", help="whose spaces")
    ahead.add_argument("--leaders", type=int, default=_LEADERS, help="fastest ones of a space")
    ahead.add_argument("--controls", type=int, default=6, help="slower ones")
    ahead.add_argument("--expected", type=int, default=0, help="what a model puts first")
    ahead.add_argument("--knowledge", type=Path, default=_MODEL, help="that model")
    ahead.add_argument("--run", type=int, default=8, help="of a space before the next one's")
    ahead.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers")
    ahead.set_defaults(run_verb=compile_leaders)
    second = verbs.add_parser("measure", help="time them on the device")
    second.add_argument("source", type=Path, help="what `compile` wrote")
    second.add_argument("--target", default="cuda")
    second.add_argument("--commit", default=commit(), help="recorded in the output")
    second.set_defaults(run_verb=measure)
    third = verbs.add_parser("summarise", help="what `measure` wrote, once more")
    third.add_argument("source", type=Path, help="what `measure` wrote")
    third.add_argument("-o", "--output", type=Path, required=True)
    third.set_defaults(run_verb=summarise)
    for one in (ahead, second):
        one.add_argument("--spaces", type=Path, nargs="*", help="files; those that ship")
        one.add_argument("--least", type=int, default=1000, help="configurations of a space")
        one.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.run_verb(options)


if __name__ == "__main__":
    main()
