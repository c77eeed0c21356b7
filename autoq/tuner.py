"""Tunes a model: searches for the fastest kernel of every distinct workload on a device."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from contextlib import closing

from autoq import __version__
from autoq.cache import require_private
from autoq.devices import Host, require_device, resolve
from autoq.errors import InputError
from autoq.graph.ir import Graph
from autoq.graph.precision import Precision, make_precision
from autoq.knowledge.choice import usable
from autoq.knowledge.shipped import known_models
from autoq.measure.job import REGISTRY, load_registry
from autoq.measure.runner import OutOfTime
from autoq.records.database import Conditions, Database
from autoq.records.journal import Journal
from autoq.records.lookup import template_versions
from autoq.report.events import Notice, TaskRow, TuneSummary
from autoq.scratch import scratch_folder, sweep
from autoq.templates.arrays.layout import NHWC
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.dependent_launch import can_overlap
from autoq.templates.target import Target
from autoq.tuning.asking import PREDICTED
from autoq.tuning.company import company
from autoq.tuning.opening import make_asker, opening_measurer
from autoq.tuning.options import TuneOptions, check_layouts, make_options
from autoq.tuning.pacing import Pacing
from autoq.tuning.prepare import (
    Model,
    in_layouts,
    known_rows,
    make_tasks,
    model_workloads,
    resume,
    tunable,
)
from autoq.tuning.provenance import Provenance
from autoq.tuning.run import OnEvent, Run, task_row
from autoq.tuning.sharing import Sharing
from autoq.tuning.task import ModelWorkload
from autoq.tuning.task_numbers import task_numbers


def list_tasks(
    model: Model,
    *,
    target: str | Host = "auto",
    tuning_records: Sequence[str | os.PathLike[str]] = (),
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    use_shipped_records: bool = True,
    registry: str = REGISTRY,
    layouts: Sequence[str] = (NHWC,),
    precision: Precision | None = None,
) -> list[TaskRow]:
    """The tasks of a model with the best known record of each; needs no device.

    layouts: as in `tuning.options.TuneOptions`.

    Raises ModelError, InputError, RecordError or TargetError for what the user gave.
    """
    host = target if isinstance(target, Host) else resolve(target)
    templates = list(load_registry(registry).values())
    database = Database.load(tuning_records, shipped=use_shipped_records)
    check_layouts(layouts)
    pairs = _tunable_pairs(model, input_shapes, layouts, templates, host.target, precision)
    conditions = Conditions(host.target.arch, host.device, template_versions(templates))
    return known_rows([workload for workload, _ in pairs], host.target, database, conditions)


def tune(
    model: Model,
    *,
    trials: int,
    output: str | os.PathLike[str],
    target: str | Host = "auto",
    tuning_records: Sequence[str | os.PathLike[str]] = (),
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    on_event: OnEvent | None = None,
    **options: object,
) -> TuneSummary:
    """Search for fast kernels and append every trial to the record file `output`.

    model is an ONNX file, a graph of `autoq.frontend.load`, or a sequence of workloads, each of
    which counts as often as it stands there. An `output` of an earlier run is resumed: its records
    are not measured again and count as trials. Those of `tuning_records` are known to the search as
    well. on_event is called with each of `report.events`. Ctrl-C ends with everything measured on
    the disk. `options` are the fields of `tuning.options.TuneOptions`.

    Raises ModelError, InputError, RecordError or TargetError, before anything is measured or
    written, for what the user gave; MeasureError when the device fails.
    """
    settings = make_options(trials, options)
    started = settings.clock.now() if settings.started is None else settings.started
    if settings.cache_dir is not None:
        require_private(settings.cache_dir)
    tell = on_event or (lambda event: None)
    templates = list(load_registry(settings.registry).values())
    journal = Journal(output, lambda text: tell(Notice(text)))
    others = Database.load(tuning_records)
    host = target if isinstance(target, Host) else resolve(target, settings.device)
    if settings.measurer is None:
        require_device(host)
    overlapped = _overlapped(model, settings, host.target)
    settings = dataclasses.replace(settings, overlapped=overlapped)
    asked = make_precision(settings.precision, settings.threshold, settings.tolerance)
    pairs = _tunable_pairs(model, input_shapes, settings.layouts, templates, host.target, asked)
    if not pairs:
        raise InputError(f"the model has no workload that can be tuned for {host.target.arch}")
    chosen = [(index, *pairs[index]) for index in task_numbers(settings.tasks, len(pairs))]
    sweep()
    pacing = Pacing(settings.clock, started, settings.time_budget)
    replayed = settings.measurer is not None
    models = known_models(settings.knowledge, shipped=not replayed)
    knowledge = usable(models, host.target.arch, host.device)
    with (
        journal,
        scratch_folder() as scratch,
        closing(make_asker(host, settings, replayed, knowledge)) as asker,
        opening_measurer(host, settings, scratch, pacing) as opened,
    ):
        tasks = make_tasks(chosen, host.target, settings.seed, PREDICTED if knowledge else 0)
        try:
            measurer = opened()
            if overlapped:
                left = None if settings.time_budget is None else max(0.0, pacing.left)
                measurer.surround(company(pairs, host.target), left)
        except OutOfTime:
            rows, elapsed = tuple(map(task_row, tasks)), settings.clock.now() - started
            summary = TuneSummary(str(journal.path), host.device, rows, 0, elapsed, "time", {})
            tell(summary)
            return summary
        device = measurer.device
        versions = template_versions(templates)
        conditions = Conditions(host.target.arch, device.name, versions, overlapped)
        known = resume(tasks, journal.existing, others, conditions)
        sharing = Sharing(journal, tasks, device, conditions, settings.trials)
        provenance = Provenance(device, _tvm_version(), __version__, overlapped)
        run = Run(tasks, settings, journal, sharing, known, tell, pacing)
        return run.run(asker, measurer, provenance, host.target)


def _tunable_pairs(
    model: Model,
    input_shapes: Mapping[str, Sequence[int]] | None,
    layouts: Sequence[str],
    templates: Sequence[Template],
    target: Target,
    precision: Precision | None,
) -> list[tuple[ModelWorkload, list[Template]]]:
    """A model's workloads in the layouts, with the tunable templates that compute each."""
    workloads = model_workloads(model, target, templates, input_shapes, precision)
    return tunable(in_layouts(workloads, layouts, templates, target), templates, target)


def _overlapped(model: Model, options: TuneOptions, target: Target) -> bool:
    """Whether candidates are timed as a network launches them: kernels of a model, by default.

    Workloads by themselves are timed from start to end, as libraries are, and a measurer that the
    options bring has times of its own. Raises InputError where a target cannot do what is asked.
    """
    if options.overlapped is None:
        network = isinstance(model, str | os.PathLike | Graph)
        return network and can_overlap(target) and options.measurer is None
    if options.overlapped and not can_overlap(target):
        raise InputError(f"overlapped: launches do not overlap on {target.arch}")
    return options.overlapped


def _tvm_version() -> str:
    import tvm

    return str(tvm.__version__)
