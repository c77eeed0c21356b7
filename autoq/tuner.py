"""Tunes a model: searches for the fastest kernel of every distinct workload on a device."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from autoq import __version__
from autoq.cache import require_private
from autoq.devices import Host, require_device, resolve
from autoq.errors import InputError
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings
from autoq.measure.job import REGISTRY, load_registry
from autoq.measure.measurer import DeviceMeasurer
from autoq.measure.runner import OutOfTime, Runner
from autoq.measure.worker import WorkerSettings
from autoq.records.database import Conditions, Database
from autoq.records.journal import Journal
from autoq.records.lookup import template_versions
from autoq.report.events import Notice, TaskRow, TuneSummary
from autoq.scratch import scratch_folder, sweep
from autoq.templates.layout import NHWC
from autoq.tuning.asking import Asker, LocalAsker, ParallelAsker, SearchSettings
from autoq.tuning.options import TuneOptions, check_layouts, make_options, timing
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
) -> list[TaskRow]:
    """The tasks of a model with the best known record of each; needs no device.

    layouts: as in `tuning.options.TuneOptions`.

    Raises ModelError, InputError, RecordError or TargetError for what the user gave.
    """
    host = target if isinstance(target, Host) else resolve(target)
    templates = list(load_registry(registry).values())
    database = Database.load(tuning_records, shipped=use_shipped_records)
    check_layouts(layouts)
    workloads = model_workloads(model, host.target, templates, input_shapes)
    workloads = in_layouts(workloads, layouts, templates, host.target)
    pairs = tunable(workloads, templates, host.target)
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

    model is an ONNX file, a graph of `autoq.frontend.load`, or a sequence of workloads or
    `ModelWorkload`s. An `output` of an earlier run is resumed: its records are not measured again
    and count as trials. Those of `tuning_records` are known to the search as well. on_event is
    called with each of `report.events`. Ctrl-C ends with everything measured on the disk. `options`
    are the fields of `tuning.options.TuneOptions`.

    Raises ModelError, InputError, RecordError or TargetError, before anything is measured or
    written, for what the user gave; MeasureError when the device fails.
    """
    settings = make_options(trials, options)
    measurer = settings.measurer
    started = settings.clock.now() if settings.started is None else settings.started
    if settings.cache_dir is not None:
        require_private(settings.cache_dir)
    tell = on_event or (lambda event: None)
    templates = load_registry(settings.registry)
    journal = Journal(output, lambda text: tell(Notice(text)))
    others = Database.load(tuning_records)
    host = target if isinstance(target, Host) else resolve(target, settings.device)
    if measurer is None:
        require_device(host)
    known_templates = list(templates.values())
    workloads = model_workloads(model, host.target, known_templates, input_shapes)
    workloads = in_layouts(workloads, settings.layouts, known_templates, host.target)
    pairs = tunable(workloads, known_templates, host.target)
    if not pairs:
        raise InputError(f"the model has no workload that can be tuned for {host.target.arch}")
    chosen = [(index, *pairs[index]) for index in task_numbers(settings.tasks, len(pairs))]
    sweep()
    pacing = Pacing(settings.clock, started, settings.time_budget)
    with journal, scratch_folder() as scratch, ThreadPoolExecutor(1) as thread:
        asker = make_asker(host, settings, local=measurer is not None)
        opening = None
        if measurer is None:
            # Its processes start while this one makes the tasks, which takes as long.
            seconds = None if settings.time_budget is None else max(0.0, pacing.left)
            opening = thread.submit(device_measurer, host, settings, scratch, seconds)
        try:
            tasks = make_tasks(chosen, host.target, settings.seed)
            measurer = measurer or opening.result()
            device = measurer.device
            conditions = Conditions(
                host.target.arch, device.name, template_versions(templates.values())
            )
            known = resume(tasks, journal.existing, others, conditions)
            provenance = Provenance(device, _tvm_version(), __version__)
            sharing = Sharing(journal, tasks, device, conditions, settings.trials)
            run = Run(tasks, settings, journal, sharing, known, tell, pacing)
            return run.run(asker, measurer, provenance, host.target)
        except OutOfTime:
            elapsed = settings.clock.now() - started
            rows = tuple(map(task_row, tasks))
            summary = TuneSummary(str(journal.path), host.device, rows, 0, elapsed, "time", {})
            tell(summary)
            return summary
        finally:
            asker.close()
            if measurer is None and opening is not None and opening.exception() is None:
                measurer = opening.result()
            if measurer is not None:
                measurer.close()


def make_asker(host: Host, options: TuneOptions, local: bool) -> Asker:
    """Strategies in processes of their own, unless `local` or the CPU is what is measured."""
    settings = SearchSettings(options.registry, host.target, options.tuner)
    if local or host.target.kind == "cpu":
        return LocalAsker(settings)
    return ParallelAsker(settings, size=max(1, min(4, len(os.sched_getaffinity(0)) // 4)))


def device_measurer(
    host: Host, options: TuneOptions, scratch: Path, seconds: float | None = None
) -> DeviceMeasurer:
    """Builder and runner for a host's device; scratch is a folder for references.

    Raises TargetError when the device or its compiler is missing, OutOfTime when the device
    needs more than `seconds` to start.
    """
    cuda = ""
    if host.target.kind == "cuda":
        from autoq.kernel.nvcc import nvcc_version

        cuda = nvcc_version()
    cores = len(os.sched_getaffinity(0))
    worker = WorkerSettings(
        options.registry, host.target, options.device, options.seed, cores, scratch
    )
    build = BuildSettings(options.registry, host.target, options.cache_dir)
    runner = Runner(worker, timing(options, host.target.kind), options.timeout)
    builder = Builder(build, options.jobs or cores, options.build_timeout, scratch)
    try:
        builder.warm()
        device = dataclasses.replace(runner.describe(seconds), cuda=cuda)
    except BaseException:
        runner.close()
        builder.close()
        raise
    return DeviceMeasurer(builder, runner, device, exclusive=host.target.kind == "cpu")


def _tvm_version() -> str:
    import tvm

    return str(tvm.__version__)
