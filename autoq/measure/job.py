"""What is measured and what comes of it: the messages between tuner, builder and runner."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autoq.errors import InputError
from autoq.templates.base import Template
from autoq.templates.workload import Workload

REGISTRY = "autoq.templates:TEMPLATES"
"""Where templates are looked up by name; child processes load it too.

`module:attribute` names a sequence of templates. A package's name alone adds what its modules
define, operators and templates, to all that comes with autoq.
"""


@dataclass(frozen=True)
class Job:
    """One candidate of one workload; template names an entry of the registry."""

    workload: Workload
    template: str
    config: Any


@dataclass(frozen=True)
class Timing:
    """How long a right candidate is timed.

    repeat: timings, whose median counts; number: launches in each, 0 to choose by `min_seconds`,
    the least length of one timing; budget_seconds ends a slow candidate's repeats early, after
    three; cold rotates all buffers past the L2 cache, so that every launch reads from memory;
    overlapped lets kernels that wait for their predecessors themselves start before those end, as
    they do in a model, and times them among those of `Measurer.surround`; rest_seconds is a pause
    before each timing, so that a device whose clock falls with the power it has drawn gives every
    kernel the same one.
    """

    repeat: int = 20
    number: int = 0
    min_seconds: float = 1e-3
    budget_seconds: float = 0.2
    cold: bool = False
    overlapped: bool = False
    rest_seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise InputError(f"repeat {self.repeat}: at least 1 timing is needed")
        if self.number < 0:
            raise InputError(f"number {self.number}: give at least 1, or 0 to choose")
        if self.rest_seconds < 0:
            raise InputError(f"rest_seconds {self.rest_seconds}: give at least 0")


UNTRIED = "untried"
"""The `failure` of a candidate that the machine would not let be tried; it is no record."""

CRASH, OUTSIDE = "crash", "outside"
"""How a candidate's process died: by itself, or by another's hand or for want of memory."""


@dataclass(frozen=True)
class Measurement:
    """The median seconds of a candidate, or the kind of its failure with a one-line message.

    death: "" for a process that lives, CRASH or OUTSIDE.
    """

    seconds: float | None = None
    failure: str | None = None
    message: str = ""
    repeats: int = 0
    death: str = ""


def load_registry(registry: str) -> dict[str, Template]:
    """Templates by name, preferred ones first; raises InputError when there are none there."""
    if not isinstance(registry, str):
        raise InputError(f"template registry {registry!r:.80}: the name of a package is expected")
    module, _, attribute = registry.partition(":")
    try:
        found = importlib.import_module(module)
        templates = list(getattr(found, attribute) if attribute else _with_package(module))
    except InputError:
        raise
    except Exception as error:  # whatever the user's module raises
        raise InputError(f"template registry {registry!r}: {error}") from error
    if not all(isinstance(template, Template) for template in templates):
        raise InputError(f"template registry {registry!r}: holds something that is no Template")
    return {template.name: template for template in templates}


def _with_package(package: str) -> Sequence[Template]:
    """What comes with autoq and what a package adds, preferred ones first."""
    if not hasattr(sys.modules[package], "__path__"):
        raise InputError(
            f"template registry {package!r}: is no package; name the attribute of the module that "
            f"holds templates, as {package}:TEMPLATES"
        )
    # Importing the templates takes TVM, which other registries may do without.
    from autoq.templates.registry import FOLDERS, preferred_first, templates_in

    return preferred_first(templates_in(package, *FOLDERS))
