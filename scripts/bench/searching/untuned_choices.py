"""What each way takes untuned for a workload: its record, its default, and what models predict."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoq.knowledge.choice import predicted
from autoq.knowledge.lessons import Lesson, shape_of
from autoq.knowledge.model import KnowledgeModel, trained
from autoq.records.database import Database
from autoq.records.lookup import lookup
from autoq.search.knobs import plain_config
from autoq.search.union import Candidate
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload
from autoq.templates.workload_key import from_dict, to_dict

DEVICE = "NVIDIA H200"
"""Whose records are looked up."""

LEFT_OUT = "shape_left_out", "network_left_out"
"""What models have not seen: the workload's shape, or all shapes of its file."""


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
    templates: Sequence[Template], target: Target, ways_left_out: Sequence[str] = LEFT_OUT,
) -> Choices | None:  # fmt: skip
    """What each way takes; None without a record. shapes: of the whole file."""
    best = lookup(database, workload, target, templates, DEVICE)
    matches = [one for one in matching(workload, target, templates) if one.tunable]
    if best is None or not matches:
        return None
    default = Candidate(matches[0].name, matches[0].default(workload, target))
    ways = {"record": Candidate(best.template.name, best.config), "default": default}
    promised = {}
    unseen = dict(zip(LEFT_OUT, ({shape_of(workload)}, shapes), strict=True))
    for way in ways_left_out:
        left_out = unseen[way]
        found = predicted(models.without(left_out), workload, matches, target)
        ours = [one.slowness for one in found
                if Candidate(one.template.name, one.config) == default]  # fmt: skip
        if ours:  # else the model knows nothing of the preferred template, and makes no choice
            ways[way] = Candidate(found[0].template.name, found[0].config)
            promised[way] = math.exp(ours[0] - found[0].slowness)
    return Choices(workload, matches[0].name, ways, promised)
