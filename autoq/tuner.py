"""Tunes a model: searches for the fastest kernel of every distinct workload on a device."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoq import __version__
from autoq.devices import Host, require_device, resolve
from autoq.errors import InputError
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings
from autoq.measure.job import REGISTRY, Timing, load_registry
from autoq.measure.measurer import DeviceMeasurer, Measurer
from autoq.measure.runner import Runner
from autoq.measure.worker import WorkerSettings
from autoq.records.database import Conditions, Database
from autoq.records.journal import Journal
from autoq.records.lookup import template_versions
from autoq.records.record import Record
from autoq.report.events import Event, TaskRow, TrialsMeasured, TuneStarted, TuneSummary
from autoq.search.registry import DEFAULT_STRATEGY
from autoq.tuning.interrupt import StopOnSignal
from autoq.tuning.loop import Loop, Provenance
from autoq.tuning.prepare import (
    Model,
    Resumed,
    known_rows,
    make_tasks,
    model_workloads,
    resume,
    tunable,
)
from autoq.tuning.scheduler import Limits, Scheduler
from autoq.tuning.selection import select
from autoq.tuning.task import Task

OnEvent = Callable[[Event], None]


def list_tasks(
    model: Model,
    *,
    target: str | Host = "auto",
    tuning_records: Sequence[str | os.PathLike[str]] = (),
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    use_shipped_records: bool = True,
    registry: str = REGISTRY,
) -> list[TaskRow]:
    """The tasks of a model with the best known record of each; needs no device.

    Raises ModelError, InputError, RecordError or TargetError for what the user gave.
    """
    host = target if isinstance(target, Host) else resolve(target)
    database = Database.load(tuning_records, shipped=use_shipped_records)
    templates = list(load_registry(registry).values())
    pairs = tunable(model_workloads(model, host.target, input_shapes), templates, host.target)
    conditions = Conditions(host.target.arch, host.device, template_versions(templates))
    return known_rows([workload for workload, _ in pairs], host.target, database, conditions)


@dataclass(frozen=True)
class TuneOptions:
    """How to tune.

    trials: over all tasks, those in the output of an earlier run included; trials_per_task: of
    one task at most; early_stopping: trials of a task without a better one, after which it is
    left. timeout: seconds a candidate may run; build_timeout: seconds it may compile;
    time_budget: seconds of the whole run. repeat and number as in `measure.Timing`, 0 for its
    defaults; jobs: compilers at once, 0 for every core; cache_dir keeps machine code.
    """

    trials: int
    tuner: str = DEFAULT_STRATEGY
    tasks: str = "all"
    trials_per_task: int | None = None
    early_stopping: int | None = None
    timeout: float = 10.0
    build_timeout: float = 120.0
    time_budget: float | None = None
    repeat: int = 0
    number: int = 0
    cold: bool = False
    seed: int = 0
    jobs: int = 0
    cache_dir: Path | None = None
    registry: str = REGISTRY
    device: int = 0

    def __post_init__(self) -> None:
        at_least_one = ("trials", "trials_per_task", "early_stopping")
        for name in at_least_one:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name.replace('_', '-')} {value}: at least 1 is needed")
        for name in ("timeout", "build_timeout", "time_budget"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"--{name.replace('_', '-')} {value}: a positive time is needed")
        if self.jobs < 0:
            raise InputError(f"--jobs {self.jobs}: give at least 1, or 0 for every core")


def tune(
    model: Model,
    *,
    trials: int,
    output: str | os.PathLike[str],
    target: str | Host = "auto",
    tuning_records: Sequence[str | os.PathLike[str]] = (),
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    on_event: OnEvent | None = None,
    measurer: Measurer | None = None,
    **options: object,
) -> TuneSummary:
    """Search for fast kernels and append every trial to the record file `output`.

    model is an ONNX file, a graph of `autoq.frontend.load` or `ModelWorkload`s. An `output` of
    an earlier run is resumed: its records are not measured again and count as trials. Those of
    `tuning_records` are known to the search as well. on_event is called with each of
    `report.events`. Ctrl-C ends with everything measured on the disk. measurer replaces the
    device, e.g. by a recorded space. `options` are the fields of TuneOptions.

    Raises ModelError, InputError, RecordError or TargetError, before anything is measured or
    written, for what the user gave; MeasureError when the device fails.
    """
    settings = _options(trials, options)
    journal = Journal(output)
    others = Database.load(tuning_records)
    templates = load_registry(settings.registry)
    host = target if isinstance(target, Host) else resolve(target, settings.device)
    if measurer is None:
        require_device(host)
    pairs = tunable(
        model_workloads(model, host.target, input_shapes), list(templates.values()), host.target
    )
    if not pairs:
        raise InputError(f"the model has no workload that can be tuned for {host.target.arch}")
    chosen = [(index, *pairs[index]) for index in select(settings.tasks, len(pairs))]
    tasks = make_tasks(chosen, host.target, settings.tuner, settings.seed)
    with tempfile.TemporaryDirectory(prefix="autoq-") as scratch:
        measurer = measurer or device_measurer(host, settings, Path(scratch))
        try:
            device = measurer.device
            conditions = Conditions(
                host.target.arch, device.name, template_versions(templates.values())
            )
            known = resume(tasks, journal.existing, others, conditions)
            provenance = Provenance(device, _tvm_version(), __version__)
            run = _Run(tasks, settings, journal, known, on_event or (lambda event: None))
            return run.run(measurer, provenance)
        finally:
            measurer.close()


def _options(trials: int, options: Mapping[str, object]) -> TuneOptions:
    known = {field.name for field in dataclasses.fields(TuneOptions)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise InputError(f"unknown option {unknown[0]!r}; options are {', '.join(sorted(known))}")
    return TuneOptions(trials=trials, **options)  # type: ignore[arg-type]


def device_measurer(host: Host, options: TuneOptions, scratch: Path) -> DeviceMeasurer:
    """Builder and runner for a host's device; scratch is a folder for references.

    Raises TargetError when the device or its compiler is missing.
    """
    cuda = ""
    if host.target.kind == "cuda":
        from autoq.kernel.nvcc import nvcc_version

        cuda = nvcc_version()
    cores = len(os.sched_getaffinity(0))
    worker = WorkerSettings(
        options.registry, host.target, options.device, options.seed, cores, scratch
    )
    runner = Runner(worker, timing(options, host.target.kind), options.timeout)
    try:
        device = dataclasses.replace(runner.describe(), cuda=cuda)
        build = BuildSettings(options.registry, host.target, options.cache_dir)
        builder = Builder(build, options.jobs or cores, options.build_timeout)
    except BaseException:
        runner.close()
        raise
    return DeviceMeasurer(builder, runner, device, exclusive=host.target.kind == "cpu")


def timing(options: TuneOptions, kind: str) -> Timing:
    """How candidates are timed: a CPU's clock and load need longer timings than a GPU's graph."""
    if kind == "cpu" and options.cold:
        raise InputError("--cold is for CUDA targets")
    base = Timing() if kind == "cuda" else Timing(repeat=9, min_seconds=2e-3, budget_seconds=0.1)
    return dataclasses.replace(
        base, repeat=options.repeat or base.repeat, number=options.number, cold=options.cold
    )


def _tvm_version() -> str:
    import tvm

    return str(tvm.__version__)


class _Run:
    """One run of `tune`: the loop, its limits and its events."""

    def __init__(
        self,
        tasks: Sequence[Task],
        options: TuneOptions,
        journal: Journal,
        known: Resumed,
        on_event: OnEvent,
    ) -> None:
        self._tasks = tasks
        self._options = options
        self._journal = journal
        self._known = known
        self._on_event = on_event
        self._started = time.monotonic()
        self._measured = 0

    def run(self, measurer: Measurer, provenance: Provenance) -> TuneSummary:
        """Measure until a limit or a signal ends it."""
        options = self._options
        self._on_event(
            TuneStarted(provenance.device.name, len(self._tasks), options.trials,
                        self._known.counted, self._known.reused, self._known.skipped)
        )  # fmt: skip
        limits = Limits(options.trials, options.trials_per_task, options.early_stopping)
        scheduler = Scheduler(self._tasks, limits, measurer.pipelined)
        deadline = None if options.time_budget is None else self._started + options.time_budget
        with StopOnSignal() as signals:
            loop = Loop(
                scheduler, measurer, self._journal, provenance, self._measured_batch,
                lambda: signals.requested, deadline,
            )  # fmt: skip
            reason = loop.run()
        summary = TuneSummary(
            output=str(self._journal.path),
            device=provenance.device.name,
            rows=tuple(task_row(task) for task in self._tasks),
            measured=self._measured,
            elapsed_seconds=time.monotonic() - self._started,
            reason=reason,
            skipped=self._known.skipped,
        )
        self._on_event(summary)
        return summary

    def _measured_batch(self, records: Mapping[Task, list[Record]]) -> None:
        self._measured += sum(len(found) for found in records.values())
        elapsed = time.monotonic() - self._started
        done = sum(task.trials for task in self._tasks)
        left = (self._options.trials - done) * elapsed / self._measured
        if self._options.time_budget is not None:
            left = min(left, max(0.0, self._options.time_budget - elapsed))
        failures = sum((task.failures for task in self._tasks), Counter())
        for task in records:
            position = self._tasks.index(task) + 1
            self._on_event(
                TrialsMeasured(task_row(task), position, len(self._tasks), done,
                               self._options.trials, failures, elapsed, left)
            )  # fmt: skip


def task_row(task: Task) -> TaskRow:
    """What is known of a task now."""
    best = task.best
    share = task.floor_seconds / best.seconds if best and task.floor_seconds else None
    return TaskRow(
        index=task.index,
        workload=task.model.workload,
        count=task.model.count,
        nodes=task.model.nodes,
        trials=task.trials,
        seconds=task.best_seconds,
        template=best.template if best else "",
        config=best.config if best else {},
        roofline_share=share,
        failures=Counter(task.failures),
    )
