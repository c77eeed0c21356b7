"""All kernel templates: a module that defines a `TEMPLATE` in one of the folders is one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from autoq.errors import InputError
from autoq.templates.base import Template
from autoq.templates.discovery import modules_of
from autoq.templates.target import Target
from autoq.templates.workload import Workload


def templates_in(*packages: str) -> tuple[Template, ...]:
    """The `TEMPLATE` of every module of the packages: in their order, preferred ones first.

    Raises ImportError that names the module for one that cannot be imported, InputError for a
    `TEMPLATE` that is none or says that it stands in another module, and for two of one name.
    """
    found: list[Template] = []
    for package in packages:
        found += preferred_first(
            _template(module.__name__, module.TEMPLATE)
            for module in modules_of(package)
            if hasattr(module, "TEMPLATE")
        )
    twice = [name for name, count in Counter(t.name for t in found).items() if count > 1]
    if twice:
        raise InputError(f"{' and '.join(packages)}: two templates have the name {twice[0]!r}")
    return tuple(found)


def _template(module: str, found: object) -> Template:
    if not isinstance(found, Template):
        raise InputError(f"module {module}: TEMPLATE is a {type(found).__name__}, not a Template")
    if found.module != module:
        raise InputError(
            f"module {module}: its TEMPLATE says {found.module}, whose source code would stand for "
            "its own; make it with module=__name__"
        )
    return found


def preferred_first(templates: Iterable[Template]) -> list[Template]:
    """Templates by their preference; equal ones keep their order."""
    return sorted(templates, key=lambda template: -template.preference)


FOLDERS = ("autoq.templates.cuda", "autoq.templates.cpu")
"""Packages of the templates that come with autoq."""

TEMPLATES: tuple[Template, ...] = templates_in(*FOLDERS)
"""Every template; names are unique, since records go by them."""


def matching(
    workload: Workload, target: Target, templates: Iterable[Template] = TEMPLATES
) -> list[Template]:
    """Templates that can compute the workload on the target, the preferred one first."""
    found = [template for template in templates if template.matches(workload, target)]
    return sorted(found, key=lambda template: -template.preference_of(workload, target))
