"""What of a plan is still to be compiled or measured, with what earlier recordings hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from autoq.devices import Host
from autoq.errors import InputError
from autoq.knowledge.model import KnowledgeModel, load_model
from autoq.measure.job import Job
from autoq.recording.known import Known, known_as
from autoq.recording.options import RecordOptions
from autoq.recording.plan import Planned, planned
from autoq.records.journal import Journal
from autoq.records.record import Device, identity
from autoq.records.recorded_space import RecordedWorkload
from autoq.search.knobs import plain_config
from autoq.templates.base import Template
from autoq.templates.workload import Workload
from autoq.templates.workload_key import key


def drawing_model(path: Path | None, arch: str) -> KnowledgeModel | None:
    """The model of a file by which configurations of an architecture are drawn; None without one.

    Raises RecordError for a file that is no model, InputError for one of another architecture.
    """
    if path is None:
        return None
    model = load_model(path)
    if model.about.arch != arch:
        of = f"{model.about.device} ({model.about.arch})"
        raise InputError(f"--knowledge {path}: a model of {of}, and the target is {arch}")
    return model


def as_planned(
    workload: Workload,
    templates: list[Template],
    host: Host,
    options: RecordOptions,
    model: KnowledgeModel | None,
) -> Iterator[Planned]:
    """The wanted samples of a plan, whatever is recorded of them; model: of `drawing_model`."""
    source = _planned(workload, templates, host, options, model)
    return source if options.exhaustive else islice(source, options.samples)


def still_to_compile(
    workload: Workload,
    matching: list[Template],
    host: Host,
    options: RecordOptions,
    known: Known,
    templates: Mapping[str, Template],
    model: KnowledgeModel | None,
) -> Iterator[Planned]:
    """What of a plan no earlier recording holds, as much as makes up the wanted samples.

    model: of `drawing_model`.
    """
    source = _planned(workload, matching, host, options, model)
    current = {one for one in known if _current(templates, *one[:2])}
    left = (one for one in source if _known_name(one, templates) not in current)
    return left if options.exhaustive else islice(left, max(0, options.samples - len(current)))


def recorded_names(
    journal: Journal,
    earlier: RecordedWorkload | None,
    templates: Mapping[str, Template],
) -> set[str]:
    """What has a record in the record file or an earlier space, of templates as they are now."""
    found = {
        record.identity
        for record in journal.existing.records
        if _current(templates, record.template, record.template_version)
    }
    if earlier is not None:
        found |= {
            identity(key(earlier.workload), t.template, t.version, t.config, earlier.device)
            for t in earlier.trials
            if _current(templates, t.template, t.version)
        }
    return found


def still_to_measure(
    workload: Workload,
    plan: Sequence[Planned],
    names: Sequence[str],
    known: set[str],
    samples: int | None,
) -> list[Job]:
    """What of a plan has no record yet, as much of it as makes up the wanted samples."""
    found = [
        Job(workload, one.candidate.template, one.candidate.config)
        for one, name in zip(plan, names, strict=True)
        if name not in known
    ]
    return found if samples is None else found[: max(0, samples - len(known))]


def planned_identity(
    workload: Workload, one: Planned, templates: Mapping[str, Template], device: Device
) -> str:
    """The `Record.identity` that a planned configuration will have."""
    template = templates[one.candidate.template]
    config = plain_config(one.candidate.config)
    return identity(key(workload), template.name, template.version, config, device)


def _planned(
    workload: Workload,
    templates: list[Template],
    host: Host,
    options: RecordOptions,
    model: KnowledgeModel | None,
) -> Iterator[Planned]:
    return planned(
        workload, templates, host.target, options.seed, options.exhaustive, options.nearby, model
    )  # fmt: skip


def _current(templates: Mapping[str, Template], name: str, version: int) -> bool:
    return name in templates and templates[name].version == version


def _known_name(one: Planned, templates: Mapping[str, Template]) -> tuple[str, int, str]:
    name = one.candidate.template
    return known_as(name, templates[name].version, plain_config(one.candidate.config))
