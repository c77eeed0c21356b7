"""How fast the untuned choice of a model of records is, beside tuned records and defaults.

    python scripts/bench/bench_predicted.py plan NETWORK.jsonl --spaces FOLDER -o KERNELS
    autoq record --compiled KERNELS -o TIMES                       (on the device)
    python scripts/bench/bench_predicted.py report NETWORK.jsonl --times TIMES -o result.json

`plan` needs no device. For every workload of a record file it compiles the fastest record, the
untuned default, and what models predict that have not seen the workload's shape, and those that
have seen none of the file's shapes.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from autoq.devices import resolve
from autoq.knowledge.choice import predicted
from autoq.knowledge.lessons import Lesson, shape_of
from autoq.knowledge.model import KnowledgeModel, trained
from autoq.knowledge.training import gathered, lessons_of
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings
from autoq.measure.job import REGISTRY, load_registry
from autoq.recording.bundle import BundleFolder
from autoq.recording.compiling import compile_ahead
from autoq.recording.naming import file_name
from autoq.recording.plan import Planned
from autoq.records.database import Database
from autoq.records.lines import read_records
from autoq.records.lookup import lookup, template_versions
from autoq.records.recorded_space import SUFFIX, read_space
from autoq.scratch import scratch_folder
from autoq.search.union import Candidate
from autoq.templates.registry import matching
from autoq.templates.workload import Workload

WAYS = ("record", "default", "shape_left_out", "network_left_out")


def workloads_of(path: Path, part: str) -> list[Workload]:
    """The distinct workloads of a record file whose text begins with `part`."""
    found = dict.fromkeys(record.workload for record in read_records(path).records)
    return [one for one in found if str(one).startswith(part)]


def plan(options: argparse.Namespace) -> None:
    host = resolve("cuda:sm_90a")
    templates = load_registry(REGISTRY)
    versions = template_versions(templates.values())
    lessons = lessons_of(gathered(sorted(options.spaces.rglob(f"*{SUFFIX}"))), templates)
    workloads = workloads_of(options.records, options.part)
    shapes = {shape_of(one) for one in read_shapes(options.records)}
    models: dict[str, KnowledgeModel] = {}

    def model_without(left_out: set[str]) -> KnowledgeModel:
        """Trained on the lessons of other shapes; equal sets of lessons share a model."""
        rest = [one for one in lessons if one.shape not in left_out]
        name = json.dumps(sorted(left_out & {one.shape for one in lessons}))
        if name not in models:
            models[name] = _trained(rest, versions)
        return models[name]

    database = Database.load([options.records])
    chosen: dict[Workload, dict[str, Candidate]] = {}
    for workload in workloads:
        matches = [t for t in matching(workload, host.target, list(templates.values()))
                   if t.tunable]  # fmt: skip
        best = lookup(database, workload, host.target, list(templates.values()), "NVIDIA H200")
        if best is None or not matches:
            continue
        ways = {
            "record": Candidate(best.template.name, best.config),
            "default": Candidate(matches[0].name, matches[0].default(workload, host.target)),
        }
        for way, left_out in (
            ("shape_left_out", {shape_of(workload)}), ("network_left_out", shapes)
        ):  # fmt: skip
            found = predicted(model_without(left_out), workload, matches, host.target)
            if found:
                ways[way] = Candidate(found[0].template.name, found[0].config)
        chosen[workload] = ways
        print(workload, {way: one.template for way, one in ways.items()}, flush=True)
    _compile(chosen, options.output, host, templates, options.jobs)


def read_shapes(path: Path) -> Sequence[Workload]:
    return list(dict.fromkeys(record.workload for record in read_records(path).records))


def _trained(lessons: Sequence[Lesson], versions: dict[str, int]) -> KnowledgeModel:
    return trained(lessons, "", "", versions, "")


def _compile(chosen: Any, output: Path, host: Any, templates: Any, jobs: int) -> None:
    with scratch_folder() as scratch:
        settings = BuildSettings(REGISTRY, host.target, None)
        builder = Builder(settings, jobs or len(os.sched_getaffinity(0)), 120.0, scratch)
        try:
            for workload, ways in chosen.items():
                folder = BundleFolder.create(
                    output / file_name(workload), workload, host.target.arch
                )
                by_candidate: dict[Candidate, list[str]] = {}
                for way, candidate in ways.items():
                    by_candidate.setdefault(candidate, []).append(way)
                planned = [Planned(one, "+".join(names)) for one, names in by_candidate.items()]
                compile_ahead(folder, planned, templates, builder, lambda: False)
        finally:
            builder.close()


def report(options: argparse.Namespace) -> None:
    rows = []
    device = ""
    for workload in workloads_of(options.records, options.part):
        path = options.times / (file_name(workload) + SUFFIX)
        if not path.exists():
            continue
        space = read_space(path)
        device = space.device.name
        times: dict[str, float | None] = {}
        for trial in space.trials:
            for way in trial.drawn.split("+"):
                times[way] = trial.seconds
        if times.get("record"):
            rows.append({"case": str(workload), **{
                f"{way}_us": None if times.get(way) is None else round(times[way] * 1e6, 3)
                for way in WAYS
            }})  # fmt: skip
    ratios = {
        way: [row[f"{way}_us"] / row["record_us"] for row in rows if row.get(f"{way}_us")]
        for way in WAYS[1:]
    }
    summary = {
        way: {"cases": len(found), "mean": round(float(np.mean(found)), 4),
              "median": round(float(np.median(found)), 4), "worst": round(max(found), 4)}
        for way, found in ratios.items() if found
    }  # fmt: skip
    result = {
        "device": device,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "records": options.records.name,
        "slower_than_the_record": summary,
        "cases": rows,
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(summary, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("plan", "report"))
    parser.add_argument("records", type=Path, help="record file of a network")
    parser.add_argument("--part", default="", help="beginning of the workloads' names")
    parser.add_argument("--spaces", type=Path, help="recorded spaces to learn from")
    parser.add_argument("--times", type=Path, help="folder that autoq record wrote")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    {"plan": plan, "report": report}[options.verb](options)


if __name__ == "__main__":
    main()
