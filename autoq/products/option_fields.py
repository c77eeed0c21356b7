"""Options of a function of Python, by the fields of the dataclass that explains them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast

from autoq.errors import InputError

OptionsT = TypeVar("OptionsT")


def options_of(kind: type[OptionsT], options: Mapping[str, Any]) -> OptionsT:
    """Options by field name; raises InputError for unknown names and wrong values."""
    known = {field.name for field in fields(cast("Any", kind))}
    unknown = sorted(set(options) - known)
    if unknown:
        raise InputError(f"unknown option {unknown[0]!r}; options are {', '.join(sorted(known))}")
    return kind(**options)
