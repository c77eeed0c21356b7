"""The fields of a record as JSON gave them, checked one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autoq.records.line import BadLine
from autoq.search.trial import FAILURES
from autoq.templates.workload import Workload
from autoq.templates.workload_key import from_dict

SHORTEST, LONGEST = 1e-9, 1e6
"""Seconds that a kernel can take; a clock of a GPU is half a nanosecond."""

MOST_OPERATIONS = 10**30
"""The most operations of a workload that means something: days of the fastest computer."""

LONGEST_TEXT = 2000
"""Characters of a name, a workload or a configuration."""

_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z")


def seconds(value: Any) -> float | None:
    """The time of a kernel, or None."""
    if value is None:
        return None
    if type(value) not in (int, float):
        raise BadLine("invalid field", f"seconds {value!r} is not a number")
    if not SHORTEST <= value <= LONGEST:
        raise BadLine(
            "number out of range",
            f"seconds {value!r}; a kernel takes {SHORTEST:g} to {LONGEST:g}",
        )
    return float(value)


def failure(value: Any) -> str | None:
    """One of FAILURES, or None."""
    if value is not None and value not in FAILURES:
        raise BadLine("invalid field", f"failure {value!r} is not one of {FAILURES}")
    return value


def count(fields: Mapping[str, Any], name: str) -> int:
    """An integer from 0 on."""
    value = fields[name]
    if type(value) is not int:
        raise BadLine("invalid field", f"{name} {value!r} is not an integer")
    if value < 0:
        raise BadLine("number out of range", f"{name} {value!r} is negative")
    return value


def text(fields: Mapping[str, Any], name: str) -> str:
    """Any text."""
    value = fields[name]
    if not isinstance(value, str):
        raise BadLine("invalid field", f"{name} {value!r} is not text")
    return value


def label(fields: Mapping[str, Any], name: str) -> str:
    """Text of one line that a terminal shows as it is."""
    value = text(fields, name)
    _require_shown(name, value)
    return value


def instant(fields: Mapping[str, Any], name: str) -> str:
    """A time in UTC, ISO 8601."""
    value = text(fields, name)
    if not _INSTANT.fullmatch(value):
        raise BadLine("invalid field", f"{name} {value!r} is no time like 2026-11-20T12:00:00Z")
    return value


def flag(fields: Mapping[str, Any], name: str) -> bool:
    """True or false."""
    value = fields[name]
    if not isinstance(value, bool):
        raise BadLine("invalid field", f"{name} {value!r} is neither true nor false")
    return value


def config(value: Any) -> dict[str, Any]:
    """Knob values by name."""
    if not isinstance(value, dict):
        raise BadLine("invalid field", f"config {value!r} is not an object")
    _require_shown("config", " ".join(f"{knob}={chosen}" for knob, chosen in value.items()))
    return value


def workload(value: Any) -> Workload:
    """A workload whose shapes mean something."""
    try:
        made = from_dict(value)
        # Shapes without a meaning, such as a stride of 0, show when they are counted.
        sizes = (made.operations, made.bytes)
        shown = str(made)
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise BadLine("invalid field", f"workload: {error}") from error
    _require_shown("workload", shown)
    if not 0 <= min(sizes) <= max(sizes) < MOST_OPERATIONS:
        raise BadLine("number out of range", f"the work of {made}")
    return made


def _require_shown(name: str, value: str) -> None:
    """Raise BadLine for text that would spoil a table on a terminal."""
    if len(value) > LONGEST_TEXT:
        raise BadLine("invalid field", f"{name} of {len(value)} characters")
    if not value.isprintable():
        raise BadLine("invalid field", f"{name} {value!r} cannot be printed")
