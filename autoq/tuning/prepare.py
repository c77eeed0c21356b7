"""From a model and earlier records to tasks that are ready to be tuned."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoq.errors import InputError
from autoq.graph.ir import Graph, Layer
from autoq.graph.precision import Precision
from autoq.records.database import Conditions, Database
from autoq.records.lines import Lines
from autoq.report.events import TaskRow
from autoq.templates.arrays.layout import NHWC
from autoq.templates.base import Template
from autoq.templates.registry import matching
from autoq.templates.target import Target
from autoq.templates.workload import Workload, as_workload
from autoq.tuning.task import ModelWorkload, Task, roofline_seconds

Model = str | os.PathLike[str] | Graph | Sequence[Workload]


def model_workloads(
    model: Model,
    target: Target,
    templates: Sequence[Template],
    input_shapes: Mapping[str, Sequence[int]] | None,
    precision: Precision | None = None,
) -> list[ModelWorkload]:
    """The distinct workloads of a model in the order of their first use.

    A sequence of workloads keeps its order, and each counts as often as it stands there. Raises
    ModelError or InputError for a model that cannot be used.
    """
    if not isinstance(model, str | os.PathLike | Graph):
        if precision is not None:
            raise InputError(f"precision {precision.name}: of a model; workloads say their own")
        return _given(model)
    from autoq import frontend, graph

    loaded = model if isinstance(model, Graph) else frontend.load(model, input_shapes)
    nodes: dict[Any, list[str]] = {}
    for node in graph.optimise(loaded, target, templates, precision).nodes:
        if isinstance(node, Layer):
            nodes.setdefault(node.workload, []).append(node.name)
    return [ModelWorkload(w, len(names), tuple(names)) for w, names in nodes.items()]


def _given(model: Any) -> list[ModelWorkload]:
    """Workloads that a caller names."""
    if not isinstance(model, Iterable):
        raise InputError(f"model {model!r:.80}: a file, a graph or a sequence of workloads does")
    counts = Counter(as_workload(one) for one in model)
    return [ModelWorkload(workload, count) for workload, count in counts.items()]


def in_layouts(
    workloads: Iterable[ModelWorkload],
    layouts: Sequence[str],
    templates: Sequence[Template],
    target: Target,
) -> list[ModelWorkload]:
    """The workloads in every combination of the layouts that some tunable template takes.

    Raises InputError for a layout other than NHWC that no workload can have.
    """
    found: list[ModelWorkload] = []
    for model in workloads:
        for laid in model.workload.laid_out(layouts):
            if laid.in_nhwc == laid or any(
                t.tunable and t.matches(laid, target) for t in templates
            ):
                found.append(dataclasses.replace(model, workload=laid))
    served = frozenset().union(*(model.workload.layouts for model in found))
    for layout in layouts:
        if layout not in served | {NHWC}:
            raise InputError(
                f"--layouts {layout.lower()}: no convolution of the model can be computed in it on "
                f"{target.arch}; leave it out"
            )
    return found


def tunable(
    workloads: Iterable[ModelWorkload], templates: Sequence[Template], target: Target
) -> list[tuple[ModelWorkload, list[Template]]]:
    """The workloads that some tunable template computes, with those templates.

    The one that compile prefers untuned comes first: a task begins with its default.
    """
    found = []
    for model in workloads:
        matches = [t for t in matching(model.workload, target, templates) if t.tunable]
        if matches:
            found.append((model, matches))
    return found


def make_tasks(
    workloads: Sequence[tuple[int, ModelWorkload, Sequence[Template]]],
    target: Target,
    seed: int,
    predicted: int = 0,
) -> list[Task]:
    """Tasks of numbered workloads; each begins with its defaults and so many predictions."""
    return [
        Task(index, model, templates, target, seed + index, predicted)
        for index, model, templates in workloads
    ]


@dataclass
class Resumed:
    """What earlier records gave: counted in the output, reused from elsewhere, skipped."""

    counted: int = 0
    reused: int = 0
    skipped: dict[str, int] = field(default_factory=dict)


def resume(
    tasks: Sequence[Task], output: Lines, others: Database, conditions: Conditions
) -> Resumed:
    """Tell the tasks what is known: records of the output count as trials, others do not."""
    own = Database([output])
    result = Resumed()
    reasons = own.skipped(conditions) + others.skipped(conditions)
    illegal = 0
    for task in tasks:
        # The output comes last: where it compared candidates, its word stands.
        for database, counted in ((others, False), (own, True)):
            found = [one.record for one in database.usable(task.model.workload, conditions)]
            refused = task.resume(found, counted)
            illegal += refused
            if not counted:
                result.reused += len(found) - refused
        result.counted += task.trials
    if illegal:
        reasons["of a configuration that is no longer legal"] += illegal
    result.skipped = dict(reasons)
    return result


def known_rows(
    workloads: Sequence[ModelWorkload],
    target: Target,
    database: Database,
    conditions: Conditions,
) -> list[TaskRow]:
    """What is known of each workload, for the list of tasks."""
    rows = []
    for index, model in enumerate(workloads):
        best = database.best(model.workload, conditions)
        floor = roofline_seconds(model.workload, target)
        row = TaskRow(index, model.workload, model.count, model.nodes)
        if best is not None and best.record.seconds is not None:
            record = best.record
            share = floor / best.record.seconds if floor else None
            usable = database.usable(model.workload, conditions)
            trials = sum(not one.record.confirmed for one in usable)
            row = TaskRow(
                index, model.workload, model.count, model.nodes, trials, record.seconds,
                record.template, record.config, share, source=best.source,
            )  # fmt: skip
        rows.append(row)
    return rows
