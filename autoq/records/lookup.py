"""Choosing the configuration of a workload from records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from autoq.errors import ConfigError
from autoq.records.database import Conditions, Database, Found
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Choice:
    """A template and configuration that a record names.

    passed_over: faster records whose template no longer takes the workload, or whose
    configuration its space no longer allows.
    """

    template: Template
    config: Any
    found: Found
    passed_over: int = 0


def template_versions(templates: Iterable[Template]) -> dict[str, int]:
    """Version of each template by name, as `Conditions.versions` wants it."""
    return {template.name: template.version for template in templates}


def lookup(
    database: Database,
    workload: Workload,
    target: Target,
    templates: Iterable[Template],
    device: str | None,
) -> Choice | None:
    """The fastest recorded configuration that is legal today, or None; as `choices`."""
    return next(choices(database, workload, target, templates, device), None)


def choices(
    database: Database,
    workload: Workload,
    target: Target,
    templates: Iterable[Template],
    device: str | None,
) -> Iterator[Choice]:
    """The recorded configurations that are legal today, in the order of `Database.ranked`.

    Behind them come shipped ones of the device's siblings (`Database.lent`). device: name of the
    device to compile for, None when it is not known (then records of any device of the target's
    arch count).
    """
    by_name = {template.name: template for template in templates}
    conditions = Conditions(target.arch, device, template_versions(by_name.values()))
    passed_over = 0
    ranked = database.ranked(workload, conditions) + database.lent(workload, conditions)
    for found in ranked:
        template = by_name[found.record.template]
        if not template.matches(workload, target):
            passed_over += 1
            continue
        try:
            config = template.space(workload, target).from_dict(found.record.config)
        except ConfigError:
            passed_over += 1
            continue
        yield Choice(template, config, found, passed_over)
