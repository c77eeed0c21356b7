"""Records spaces: many configurations of each workload measured once, for search and learning."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from autoq.cache import require_private
from autoq.devices import Host, require_device, resolve
from autoq.errors import ConfigError, InputError, TargetError
from autoq.kernel.source_hash import source_hash
from autoq.measure.builder import Builder
from autoq.measure.compile_worker import BuildSettings
from autoq.measure.job import Job, load_registry
from autoq.paths import as_path
from autoq.process.interrupt import StopOnSignal
from autoq.recording.bundle import BundleFolder, bundle_folders
from autoq.recording.compiling import CompileCount, compile_ahead
from autoq.recording.devices import opened_measurers, provenance_of
from autoq.recording.kept_kernels import Place
from autoq.recording.known import known_in
from autoq.recording.measuring import Recorder, in_turn
from autoq.recording.naming import file_name
from autoq.recording.options import RecordOptions
from autoq.recording.output import earlier_space, journal_path, write_spaces
from autoq.recording.plan import Planned
from autoq.recording.planner import Planner
from autoq.recording.summary import Recorded
from autoq.recording.wanted import (
    drawing_model,
    planned_identity,
    recorded_names,
    still_to_compile,
    still_to_measure,
)
from autoq.records.journal import Journal
from autoq.scratch import scratch_folder, sweep
from autoq.search.space import Space
from autoq.search.union import Candidate
from autoq.templates.base import Template
from autoq.templates.workload import Workload
from autoq.tuning.clock import MonotonicClock
from autoq.tuning.prepare import ModelWorkload, tunable

Notify = Callable[[str], None]


def compile_spaces(
    workloads: Sequence[Workload],
    output: str | os.PathLike[str],
    options: RecordOptions,
    target: str | Host = "auto",
    notify: Notify = lambda text: None,
) -> list[CompileCount]:
    """Compile the planned configurations into the folder `output`, which `measure_spaces` takes.

    Needs no device. What the folder holds already is not compiled again. Raises InputError,
    TargetError or RecordError for what the user gave.
    """
    host = target if isinstance(target, Host) else resolve(target)
    templates = load_registry(options.registry)
    matching_by_workload = _tunable(workloads, templates, host)
    folder = _folder(output)
    known = known_in(options.known, host.target.arch)
    model = drawing_model(options.knowledge, host.target.arch)
    counts = []
    sweep()
    with scratch_folder() as scratch, StopOnSignal() as signals:
        settings = BuildSettings(options.registry, host.target, options.cache_dir)
        builder = Builder(settings, options.compilers, options.build_timeout, scratch)
        try:
            for workload, matching in matching_by_workload:
                if signals.requested:
                    break
                plan = still_to_compile(
                    workload, matching, host, options, known.get(workload, frozenset()), templates,
                    model,
                )  # fmt: skip
                place = BundleFolder.create(
                    folder / file_name(workload), workload, host.target.arch
                )
                count = compile_ahead(place, plan, templates, builder, lambda: signals.requested)
                notify(f"{workload}: {count.compiled} compiled, {count.failed} of them in vain; "
                       f"{count.known} were there")  # fmt: skip
                counts.append(count)
        finally:
            builder.close()
    return counts


def record_spaces(
    workloads: Sequence[Workload],
    output: str | os.PathLike[str],
    options: RecordOptions,
    target: str | Host = "auto",
    notify: Notify = lambda text: None,
) -> Recorded:
    """Compile and measure the planned configurations; trials and spaces go to the folder `output`.

    What the folder holds already is not measured again. Raises InputError, TargetError or
    RecordError for what the user gave, MeasureError when a device fails.
    """
    host = target if isinstance(target, Host) else resolve(target, options.devices[0])
    require_device(host)
    drawing_model(options.knowledge, host.target.arch)
    templates = load_registry(options.registry)
    tunable_ones = [workload for workload, _ in _tunable(workloads, templates, host)]
    with closing(Planner(host, options, tunable_ones)) as planner:
        return _measure(
            tunable_ones, planner.plan, None, _folder(output), options, host, templates, notify
        )


def measure_spaces(
    compiled: str | os.PathLike[str],
    output: str | os.PathLike[str],
    options: RecordOptions,
    target: str | Host = "auto",
    notify: Notify = lambda text: None,
) -> Recorded:
    """Measure the kernels of a folder that `compile_spaces` wrote; as `record_spaces`.

    Candidates of another version of their template are passed over, and those that its space holds
    no longer. Raises TargetError for kernels of another architecture than the device's.
    """
    host = target if isinstance(target, Host) else resolve(target, options.devices[0])
    require_device(host)
    templates = load_registry(options.registry)
    plans: dict[Workload, list[Planned]] = {}
    places: dict[Job, Place] = {}
    old = illegal = 0
    for folder in bundle_folders(as_path(compiled)):
        if folder.arch != host.target.arch:
            raise TargetError(
                f"{folder.folder}: kernels for {folder.arch}; the device is {host.target.arch}"
            )
        plan = plans.setdefault(folder.workload, [])
        spaces: dict[str, Space[Any]] = {}
        for one in folder.compiled[: None if options.exhaustive else options.samples]:
            template = templates.get(one.template)
            if template is None or template.version != one.version:
                old += 1
                continue
            if template.name not in spaces:
                spaces[template.name] = template.space(folder.workload, host.target)
            try:
                config = spaces[template.name].from_dict(one.config)
            except ConfigError:
                illegal += 1
                continue
            plan.append(Planned(Candidate(one.template, config), one.drawn))
            places[Job(folder.workload, one.template, config)] = folder, one
    if old:
        notify(f"{old} kernels are of another version of their template and left out")
    if illegal:
        notify(f"{illegal} kernels are of configurations that are no longer legal and left out")
    return _measure(
        [*plans], lambda workload, stop: plans[workload], places, _folder(output), options, host,
        templates, notify,
    )  # fmt: skip


def _measure(
    workloads: Sequence[Workload],
    plan: Callable[[Workload, Callable[[], bool]], Sequence[Planned]],
    places: Mapping[Job, Place] | None,
    output: Path,
    options: RecordOptions,
    host: Host,
    templates: Mapping[str, Template],
    notify: Notify,
) -> Recorded:
    clock = MonotonicClock()
    if options.cache_dir is not None:
        require_private(options.cache_dir)
    sweep()
    with ExitStack() as held, StopOnSignal() as signals:
        journals = {
            workload: held.enter_context(Journal(journal_path(output, workload), notify))
            for workload in workloads
        }
        scratch = held.enter_context(scratch_folder())
        measurers = held.enter_context(opened_measurers(host, options, scratch, places))
        device = measurers[0].device
        samples = None if options.exhaustive or places is not None else options.samples
        drawn: dict[str, str] = {}

        until = None if options.time_budget is None else clock.now() + options.time_budget

        def stop() -> bool:
            return signals.requested or (until is not None and clock.now() >= until)

        def jobs_of(workload: Workload) -> list[Job]:
            own = plan(workload, stop)
            names = [planned_identity(workload, one, templates, device) for one in own]
            drawn.update(zip(names, (one.drawn for one in own), strict=True))
            earlier = None if options.again else earlier_space(output, workload)
            known = recorded_names(journals[workload], earlier, templates)
            found = still_to_measure(workload, own, names, known, samples)
            notify(f"{workload}: {len(found)} to measure, {len(known)} are there")
            return found

        recorder = Recorder(
            measurers, provenance_of(device), templates, journals,
            stop, clock, _foreign(places or {}, templates),
        )  # fmt: skip
        measured = recorder.run(
            in_turn(map(jobs_of, workloads), options.at_once),
            lambda done: notify(f"{done.timed} timed, {sum(done.failures.values())} failed"),
        )
        interrupted = signals.requested
    written = write_spaces(output, workloads, drawn, options.export)
    return Recorded(measured, tuple(written), interrupted)


def _tunable(
    workloads: Sequence[Workload], templates: Mapping[str, Template], host: Host
) -> list[tuple[Workload, list[Template]]]:
    """The workloads that there is something to record of, with their templates."""
    models = [ModelWorkload(workload, 1) for workload in workloads]
    found = tunable(models, list(templates.values()), host.target)
    if not found:
        raise InputError(f"none of the workloads can be tuned for {host.target.arch}")
    return [(model.workload, matching) for model, matching in found]


def _foreign(places: Mapping[Job, Place], templates: Mapping[str, Template]) -> frozenset[Job]:
    """Candidates whose template's source code has changed since they were compiled."""
    return frozenset(
        job
        for job, (_, compiled) in places.items()
        if compiled.source != source_hash(templates[job.template].module)
    )


def _folder(output: str | os.PathLike[str]) -> Path:
    """The folder, made where it is missing; raises InputError where a file is there."""
    folder = as_path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror or error}") from error
    return folder
