"""What a model is trained on: trials of many workloads, as matrices of features and targets."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import ConfigError
from autoq.knowledge.features import Columns, fixed, varied
from autoq.records.recorded_space import RecordedWorkload, SpaceTrial
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload

# Log of how much slower than the slowest success a failure counts, and what is slow enough.
_FAILURE, _SLOW = 0.7, math.log(8.0)


@dataclass(frozen=True)
class Lesson:
    """The usable trials of one workload.

    seconds are infinite for failures; configs, templates and how they were drawn are in their
    order.
    """

    workload: Workload
    target: Target
    templates: tuple[str, ...]
    configs: tuple[Any, ...]
    seconds: np.ndarray
    columns: Mapping[str, np.ndarray]
    drawn: tuple[str, ...]

    @property
    def targets(self) -> np.ndarray:
        """Log of the time over the workload's best, float64 [n], at most that of 8 times it."""
        worked = np.isfinite(self.seconds)
        logs = np.log(self.seconds, where=worked, out=np.zeros(len(self.seconds)))
        logs[~worked] = logs[worked].max() + _FAILURE
        return np.minimum(logs - logs.min(), _SLOW)

    @property
    def shape(self) -> str:
        """The shape of its workload."""
        return shape_of(self.workload)

    def rows(self, most: int, rng: np.random.Generator) -> np.ndarray:
        """Rows of at most so many trials, int64 [at most most]: the fastest half, others at random.

        Where thousands were recorded, those that are slow say little that a few of them do not.
        """
        if len(self.seconds) <= most:
            return np.arange(len(self.seconds))
        order = np.argsort(self.seconds, kind="stable")
        fast = most // 2
        return np.sort(np.concatenate([order[:fast], rng.permutation(order[fast:])[: most - fast]]))

    def part(self, rows: Sequence[int] | np.ndarray) -> Lesson:
        """A lesson of some of its trials."""
        return dataclasses.replace(
            self,
            templates=tuple(self.templates[i] for i in rows),
            configs=tuple(self.configs[i] for i in rows),
            seconds=self.seconds[rows],
            columns={name: column[rows] for name, column in self.columns.items()},
            drawn=tuple(self.drawn[i] for i in rows),
        )

    def matrix(self, columns: Columns) -> np.ndarray:
        """Features float32 [n, columns]."""
        found = np.full((len(self.seconds), len(columns.names)), np.nan, dtype=np.float32)
        for i, name in enumerate(columns.names):
            if name in self.columns:
                found[:, i] = self.columns[name]
        return found


def shape_of(workload: Workload) -> str:
    """What workloads of one shape share, whatever their batch, dtypes, layouts and epilogue.

    The first sizes of an operator are its batch, or the rows of its product.
    """
    sizes = [
        value
        for value in workload.key_fields().values()
        if isinstance(value, (int, tuple, list)) and not isinstance(value, bool)
    ]
    return json.dumps([workload.operator, *sizes[workload.batch_sizes :]])


def kind_of(workload: Workload) -> str:
    """What workloads share that can teach each other's untuned choices.

    The operator, and the pattern of weights that are partly zero.
    """
    structure = workload.key_fields().get("sparsity") or {}
    return " ".join([workload.operator, *([structure["pattern"]] if structure else [])])


def lesson(
    recorded: RecordedWorkload, templates: Mapping[str, Template], target: Target
) -> Lesson | None:
    """The lesson of a recorded space; None where nothing in it is of the present templates.

    A configuration that was recorded twice, in an earlier form of the knobs too, counts once, with
    its later time, as in a replay.
    """
    workload = recorded.workload
    by_template: dict[str, list[SpaceTrial]] = {}
    for trial in recorded.trials:
        template = templates.get(trial.template)
        if template is not None and template.version == trial.version:
            by_template.setdefault(trial.template, []).append(trial)
    names: list[str] = []
    configs: list[Any] = []
    seconds: list[float] = []
    drawn: list[str] = []
    parts: list[dict[str, np.ndarray]] = []
    for name, trials in by_template.items():
        if not templates[name].matches(workload, target):
            continue
        space = templates[name].space(workload, target)
        last: dict[Any, SpaceTrial] = {}
        for trial in trials:
            try:
                last[space.from_dict(trial.config)] = trial
            except ConfigError:
                continue
        for config, trial in last.items():
            configs.append(config)
            names.append(name)
            drawn.append(trial.drawn)
            seconds.append(math.inf if trial.seconds is None else trial.seconds)
        if codes := [space.code(config) for config in last]:
            own = {
                column: np.full(len(codes), value, np.float32)
                for column, value in fixed(workload, name, target).items()
            }
            own.update(varied(space, np.array(codes, dtype=np.int64), workload, target))
            parts.append(own)
    times = np.array(seconds)
    if not np.isfinite(times).any():
        return None
    return Lesson(
        workload, target, tuple(names), tuple(configs), times, _stacked(parts), tuple(drawn)
    )  # fmt: skip


def preferred(lesson: Lesson, templates: Mapping[str, Template]) -> Template:
    """The template that makes a workload's untuned default."""
    fitting = matching(lesson.workload, lesson.target, list(templates.values()))
    return next(template for template in fitting if template.tunable)


def shapes_of_templates(lessons: Sequence[Lesson]) -> dict[str, set[str]]:
    """The shapes that have trials of each template."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in lessons:
        for name in set(one.templates):
            found[name].add(one.shape)
    return found


def all_columns(lessons: Iterable[Lesson]) -> Columns:
    """Every column that some lesson has, in the order of their first use."""
    return Columns(list(dict.fromkeys(name for one in lessons for name in one.columns)))


def _stacked(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    sizes = [len(next(iter(part.values()))) for part in parts]
    found = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        blocks = [
            part.get(name, np.full(size, np.nan, np.float32))
            for part, size in zip(parts, sizes, strict=True)
        ]
        found[name] = np.concatenate(blocks).astype(np.float32)
    return found
