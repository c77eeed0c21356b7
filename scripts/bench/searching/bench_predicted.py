"""How fast the untuned choice of a model of records is, beside tuned records and defaults.

    python scripts/bench/searching/bench_predicted.py choose NETWORK.jsonl -o choices.json
    python scripts/bench/searching/bench_predicted.py measure choices.json -o result.json

`choose` needs no device. For every workload of a record file it takes the fastest record, the
untuned default, and what models predict that have not seen the workload's shape, and those that
have seen none of the file's shapes. `measure` compiles them on the device's machine, compares every
output element, and times those of each workload in turn.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from autoq.devices import require_device, resolve
from autoq.knowledge.choice import predicted
from autoq.knowledge.evaluation import PROMISES
from autoq.knowledge.lessons import Lesson, shape_of
from autoq.knowledge.model import KnowledgeModel, trained
from autoq.knowledge.training import gathered, lessons_of
from autoq.measure.job import REGISTRY, Job, Timing, load_registry
from autoq.recording.devices import opened_measurers
from autoq.recording.options import RecordOptions
from autoq.records.database import Database
from autoq.records.lines import read_records
from autoq.records.lookup import lookup, template_versions
from autoq.replaying.loading import shipped_spaces
from autoq.scratch import scratch_folder
from autoq.search.knobs import plain_config
from autoq.search.union import Candidate
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload
from autoq.templates.workload_key import from_dict, to_dict

sys.path.insert(0, str(Path(__file__).parents[2]))
from checkout import commit

WAYS = ("record", "default", "shape_left_out", "network_left_out")
DEVICE = "NVIDIA H200"
"""Whose records are looked up."""
_TIMING = Timing(repeat=7, min_seconds=1e-3, budget_seconds=0.5, rest_seconds=0.02)


@dataclass(frozen=True)
class Choices:
    """A candidate of each way for one workload.

    promised: by how much each model says that its choice is faster than the default.
    """

    workload: Workload
    family: str
    ways: Mapping[str, Candidate]
    promised: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """As a file has it."""
        return {
            "workload": to_dict(self.workload), "family": self.family,
            "promised": {way: round(value, 4) for way, value in self.promised.items()},
            "ways": {
                way: {"template": one.template, "config": plain_config(one.config)}
                for way, one in self.ways.items()
            },
        }  # fmt: skip


def read_choices(
    path: Path, templates: Mapping[str, Template], target: Target
) -> tuple[str, list[Choices]]:
    """The name of the record file, and what `choose` wrote of each workload."""
    data = json.loads(path.read_text())
    found = []
    for row in data["choices"]:
        workload = from_dict(row["workload"])
        ways = {
            way: Candidate(
                one["template"],
                templates[one["template"]].space(workload, target).from_dict(one["config"]),
            )
            for way, one in row["ways"].items()
        }
        found.append(Choices(workload, row["family"], ways, row["promised"]))
    return data["records"], found


class Models:
    """Models of some lessons without those of some shapes, each trained once."""

    def __init__(self, lessons: Sequence[Lesson], versions: Mapping[str, int]) -> None:
        self._lessons, self._versions = lessons, versions
        self._models: dict[frozenset[str], KnowledgeModel] = {}

    def without(self, shapes: Iterable[str]) -> KnowledgeModel:
        """Trained on the lessons of other shapes."""
        left_out = frozenset(shapes) & {one.shape for one in self._lessons}
        if left_out not in self._models:
            rest = [one for one in self._lessons if one.shape not in left_out]
            self._models[left_out] = trained(rest, "", "", self._versions, "")
        return self._models[left_out]


def chosen(
    workload: Workload, shapes: set[str], database: Database, models: Models,
    templates: Sequence[Template], target: Target,
) -> Choices | None:  # fmt: skip
    """What each way takes; None without a record. shapes: of the whole file."""
    best = lookup(database, workload, target, templates, DEVICE)
    matches = [one for one in matching(workload, target, templates) if one.tunable]
    if best is None or not matches:
        return None
    default = Candidate(matches[0].name, matches[0].default(workload, target))
    ways = {"record": Candidate(best.template.name, best.config), "default": default}
    promised = {}
    for way, left_out in (
        ("shape_left_out", {shape_of(workload)}), ("network_left_out", shapes)
    ):  # fmt: skip
        found = predicted(models.without(left_out), workload, matches, target)
        ours = [one.slowness for one in found
                if Candidate(one.template.name, one.config) == default]  # fmt: skip
        if ours:  # else the model knows nothing of the preferred template, and makes no choice
            ways[way] = Candidate(found[0].template.name, found[0].config)
            promised[way] = math.exp(ours[0] - found[0].slowness)
    return Choices(workload, matches[0].name, ways, promised)


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
                workload, shapes, database, models, list(templates.values()), target
            )  # fmt: skip
            if one is not None:
                found.append(one)
                print(workload, one.promised, flush=True)
    data = {"records": options.source.name, "choices": [one.to_json() for one in found]}
    options.output.write_text(json.dumps(data) + "\n")


def measure(options: argparse.Namespace) -> None:
    """Time what was chosen; the result is written after each workload."""
    host = resolve(options.target)
    require_device(host)
    templates = load_registry(REGISTRY)
    records, found = read_choices(options.source, templates, host.target)
    result = {
        "device": host.device, "commit": options.commit, "records": records,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "cases": [],
    }  # fmt: skip
    record_options = RecordOptions(jobs=options.jobs)
    with (
        scratch_folder() as scratch,
        opened_measurers(host, record_options, scratch, None) as (measurer,),
    ):
        waiting = {}
        for one in found:
            candidates = list(dict.fromkeys(one.ways.values()))
            jobs = [Job(one.workload, each.template, each.config) for each in candidates]
            waiting[measurer.compare(jobs, _TIMING)] = one, candidates
        for done in as_completed(waiting):
            one, candidates = waiting[done]
            times = done.result()
            if times is None:
                print(f"{one.workload}: cannot be compared", flush=True)
                continue
            measured = dict(zip(candidates, (time.seconds for time in times), strict=True))
            result["cases"].append(case_of(one, measured))
            result["slower_than_the_record"] = summary(result["cases"])
            options.output.write_text(json.dumps(result, indent=1) + "\n")
            print(json.dumps(result["cases"][-1]), flush=True)
    print(json.dumps(result.get("slower_than_the_record"), indent=1))


def case_of(one: Choices, measured: Mapping[Candidate, float | None]) -> dict[str, Any]:
    """The row of a workload; a way without a time failed or knew nothing."""
    row: dict[str, Any] = {"case": str(one.workload), "family": one.family}
    for way in WAYS:
        candidate = one.ways.get(way)
        seconds = None if candidate is None else measured[candidate]
        row[f"{way}_us"] = None if seconds is None else round(seconds * 1e6, 3)
    for way, value in one.promised.items():
        row[f"{way}_promised"] = value
    return row


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of all rows and of each family, times over those of the records.

    What a model knew nothing of is left to the default; `, promised` leaves to it besides where the
    model promises less, as `compile` does.
    """
    found = {}
    promising = [(way, least) for way in WAYS[2:] for least in (1.0, *PROMISES)]
    for family in ("all", *sorted({row["family"] for row in rows})):
        own = [row for row in rows if row["record_us"] and family in ("all", row["family"])]
        ways = {}
        for way, least in (("default", 1.0), *promising):
            taken = [
                row[f"{way}_us"] is not None and row.get(f"{way}_promised", 1.0) >= least
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
    first.set_defaults(run=choose)
    second = verbs.add_parser("measure", help="time them on the device")
    second.add_argument("source", type=Path, help="what `choose` wrote")
    second.add_argument("--target", default="cuda")
    second.add_argument("--jobs", type=int, default=0, help="compilers")
    second.add_argument("--commit", default=commit(), help="recorded in the output")
    second.set_defaults(run=measure)
    for one in (first, second):
        one.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
