"""How fast the untuned choice of a model of records is, beside tuned records and defaults.

    python scripts/bench/searching/bench_predicted.py choose NETWORK.jsonl -o choices.json
    python scripts/bench/searching/bench_predicted.py compile choices.json -o KERNELS
    python scripts/bench/searching/bench_predicted.py measure choices.json \
        --compiled KERNELS -o result.json
    python scripts/bench/searching/bench_predicted.py recorded choices.json -o result.json

`choose` needs no device. For every workload of a record file it takes the fastest record, the
untuned default, and what models predict that have not seen the workload's shape, and those that
have seen none of the file's shapes. `compile` needs none either; a folder that holds some of the
kernels gets the others. `measure` compares every output element and times the configurations of
each workload in turn, in three passes over all workloads, each of which begins anew: a time is the
median of the passes. Without `--compiled` it compiles them on the device's machine, in every pass.
`recorded` needs no device: it takes the times that the recorded space of a workload holds, and
leaves out workloads of which it lacks one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from autoq.devices import require_device, resolve
from autoq.knowledge.evaluation import PROMISES
from autoq.knowledge.lessons import shape_of
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
from autoq.records.database import Database
from autoq.records.lines import read_records
from autoq.records.lookup import template_versions
from autoq.records.recorded_space import DEFAULT, SUFFIX, read_space
from autoq.replaying.loading import shipped_spaces
from autoq.scratch import scratch_folder
from autoq.search.knobs import plain_config
from autoq.search.union import Candidate
from autoq.templates.workload import Workload

sys.path.insert(0, str(Path(__file__).parents[2]))
from checkout import commit
from untuned_choices import DEVICE, LEFT_OUT, Choices, Models, chosen, read_choices

WAYS = ("record", "default", *LEFT_OUT)
_PASSES = 3
_TIMING = Timing(repeat=7, min_seconds=1e-3, budget_seconds=0.5, rest_seconds=0.02)


def choose(options: argparse.Namespace) -> None:
    """Write what each way takes for the workloads of a record file."""
    target = resolve("cuda:sm_90a").target
    templates = load_registry(REGISTRY)
    lessons = lessons_of(gathered(options.spaces or shipped_spaces()), templates)
    models = Models(lessons, template_versions(templates.values()))
    workloads = list(dict.fromkeys(one.workload for one in read_records(options.source).records))
    shapes = {shape_of(one) for one in workloads}
    database = Database.load([options.source])
    found = []
    for workload in workloads:
        if str(workload).startswith(options.part):
            one = chosen(
                workload, shapes, database, models, list(templates.values()), target,
                options.left_out,
            )  # fmt: skip
            if one is not None:
                found.append(one)
                print(workload, one.promised, flush=True)
    data = {"records": options.source.name, "choices": [one.to_json() for one in found]}
    options.output.write_text(json.dumps(data) + "\n")


def compile_choices(options: argparse.Namespace) -> None:
    """Write the kernels of what was chosen; those that are there are left."""
    target, templates = resolve("cuda:sm_90a").target, load_registry(REGISTRY)
    _, found = read_choices(options.source, templates, target)
    with scratch_folder() as scratch:
        builder = Builder(BuildSettings(REGISTRY, target, None), options.jobs, 120.0, scratch)

        def compile_one(one: Choices) -> None:
            folder = options.output / file_name(one.workload)
            place = BundleFolder.create(folder, one.workload, target.arch)
            plan = [Planned(each, DEFAULT) for each in dict.fromkeys(one.ways.values())]
            compile_ahead(place, plan, templates, builder, lambda: False)

        try:
            # Of a few kernels each, so many workloads at once as there are compilers.
            with ThreadPoolExecutor(options.jobs) as pool:
                list(pool.map(compile_one, found))
        finally:
            builder.close()


def compiled_places(folder: Path, found: Sequence[Choices]) -> dict[Job, Place]:
    """Where in a folder of kernels the candidates of choices lie."""
    kernels = {one.workload: one for one in bundle_folders(folder)}
    places: dict[Job, Place] = {}
    for one in found:
        own = {_name(each.template, each.config): each for each in kernels[one.workload].compiled}
        for each in one.ways.values():
            name = _name(each.template, plain_config(each.config))
            job = Job(one.workload, each.template, each.config)
            places[job] = kernels[one.workload], own[name]
    return places


def measure(options: argparse.Namespace) -> None:
    """Time what was chosen; the result is written after each pass."""
    host = resolve(options.target)
    require_device(host)
    templates = load_registry(REGISTRY)
    records, found = read_choices(options.source, templates, host.target)
    places = None if options.compiled is None else compiled_places(options.compiled, found)
    result = {
        "device": host.device, "commit": options.commit, "records": records,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "passes": _PASSES,
    }  # fmt: skip
    passes: dict[Workload, list[dict[Candidate, float | None]]] = defaultdict(list)
    with (
        scratch_folder() as scratch,
        opened_measurers(host, RecordOptions(jobs=options.jobs), scratch, places) as (measurer,),
    ):
        for count in range(1, _PASSES + 1):
            waiting = {}
            for one in found:
                candidates = list(dict.fromkeys(one.ways.values()))
                jobs = [Job(one.workload, each.template, each.config) for each in candidates]
                waiting[measurer.compare(jobs, _TIMING)] = one.workload, candidates
            for done in as_completed(waiting):
                workload, candidates = waiting[done]
                times = done.result()
                if times is None:
                    print(f"{workload}: cannot be compared", flush=True)
                    continue
                seconds = (time.seconds for time in times)
                passes[workload].append(dict(zip(candidates, seconds, strict=True)))
            whole = [one for one in found if len(passes[one.workload]) == count]
            result["cases"] = [case_of(one, medians(passes[one.workload])) for one in whole]
            result["slower_than_the_record"] = summary(result["cases"])
            options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result["slower_than_the_record"], indent=1))


def medians(passes: Sequence[Mapping[Candidate, float | None]]) -> dict[Candidate, float | None]:
    """The median of each candidate's times; None where one of them failed."""
    found: dict[Candidate, float | None] = {}
    for candidate in passes[0]:
        times = [one[candidate] for one in passes]
        right = [one for one in times if one is not None]
        found[candidate] = statistics.median(right) if len(right) == len(times) else None
    return found


def recorded(options: argparse.Namespace) -> None:
    """Write the times that recorded spaces hold of what was chosen."""
    templates = load_registry(REGISTRY)
    records, found = read_choices(options.source, templates, resolve("cuda:sm_90a").target)
    rows, newest = [], ""
    for one in found:
        path = options.spaces / (file_name(one.workload) + SUFFIX)
        space = read_space(path) if path.exists() else None
        trials = () if space is None else space.trials
        times = {_name(t.template, t.config): t.seconds for t in trials}
        ways = {way: _name(it.template, plain_config(it.config)) for way, it in one.ways.items()}
        if space is not None and all(times.get(name) is not None for name in ways.values()):
            newest = max(newest, space.last)
            rows.append(case_of(one, {one.ways[way]: times[name] for way, name in ways.items()}))
        else:
            print(f"{one.workload}: not all is recorded")
    result = {
        "device": DEVICE, "commit": options.commit, "records": records,
        "spaces": f"{options.spaces.parent.name}/{options.spaces.name}",
        "newest_space": newest, "cases": rows, "slower_than_the_record": summary(rows),
    }  # fmt: skip
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result["slower_than_the_record"]["all"], indent=1))


def _name(template: str, config: Mapping[str, Any]) -> str:
    return json.dumps([template, dict(config)], sort_keys=True)


def case_of(one: Choices, measured: Mapping[Candidate, float | None]) -> dict[str, Any]:
    """The row of a workload; a way without a time failed or knew nothing."""
    row: dict[str, Any] = {"case": str(one.workload), "family": one.family}
    for way in dict.fromkeys((*WAYS, *one.ways)):
        candidate = one.ways.get(way)
        seconds = None if candidate is None else measured[candidate]
        row[f"{way}_us"] = None if seconds is None else round(seconds * 1e6, 3)
    for way, value in one.promised.items():
        row[f"{way}_promised"] = value
    return row


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of all rows and of each family, times over those of the records.

    Where a way has no candidate, as where a model knew nothing, the default stands in its place;
    `, promised` leaves to it besides where the model promises less, as `compile` does.
    """
    found = {}
    timed = dict.fromkeys(
        key.removesuffix("_us") for row in rows for key in row
        if key.endswith("_us") and row[key] is not None
    )  # fmt: skip
    models = [way for way in timed if way not in WAYS[:2]]
    promising = [(way, least) for way in models for least in (1.0, *PROMISES)]
    for family in ("all", *sorted({row["family"] for row in rows})):
        own = [row for row in rows if row["record_us"] and family in ("all", row["family"])]
        ways = {}
        for way, least in (("default", 1.0), *promising):
            taken = [
                row.get(f"{way}_us") is not None and row.get(f"{way}_promised", 1.0) >= least
                for row in own
            ]
            ratios = [
                row[f"{way}_us" if of_model else "default_us"] / row["record_us"]
                for row, of_model in zip(own, taken, strict=True)
                if of_model or row["default_us"]
            ]
            if ratios:
                ways[way + (f", promised {least}" if least > 1.0 else "")] = {
                    "cases": len(ratios), "mean": round(float(np.mean(ratios)), 4),
                    "median": round(float(np.median(ratios)), 4), "worst": round(max(ratios), 4),
                    "predicted": 0 if way == "default" else sum(taken),
                }  # fmt: skip
        found[family] = ways
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    first = verbs.add_parser("choose", help="take configurations; needs no device")
    first.add_argument("source", type=Path, help="record file of a network")
    first.add_argument("--part", default="", help="beginning of the workloads' names")
    first.add_argument("--spaces", type=Path, nargs="*", help="to learn from; those that ship")
    first.add_argument(
        "--left-out", nargs="*", choices=LEFT_OUT, default=LEFT_OUT, help="of models"
    )
    first.set_defaults(run=choose)
    ahead = verbs.add_parser("compile", help="write their kernels; needs no device")
    ahead.add_argument("source", type=Path, help="what `choose` wrote")
    ahead.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers")
    ahead.set_defaults(run=compile_choices)
    second = verbs.add_parser("measure", help="time them on the device")
    second.add_argument("source", type=Path, help="what `choose` wrote")
    second.add_argument("--target", default="cuda")
    second.add_argument("--jobs", type=int, default=0, help="compilers")
    second.add_argument("--compiled", type=Path, help="what `compile` wrote")
    second.add_argument("--commit", default=commit(), help="recorded in the output")
    second.set_defaults(run=measure)
    third = verbs.add_parser("recorded", help="take recorded times; needs no device")
    third.add_argument("source", type=Path, help="what `choose` wrote")
    third.add_argument("--spaces", type=Path, default=Path("tuning_logs/spaces/h200"))
    third.add_argument("--commit", default=commit(), help="recorded in the output")
    third.set_defaults(run=recorded)
    for one in (first, ahead, second, third):
        one.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
