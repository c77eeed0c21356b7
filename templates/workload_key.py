"""Workloads as JSON: the stable key by which records know them."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
from collections.abc import Mapping
from typing import Any

from autoq.templates.discovery import modules_of
from autoq.templates.field_types import expectation, is_a, kinds
from autoq.templates.workload import Workload


def to_dict(workload: Workload) -> dict[str, Any]:
    """A JSON-able mapping that `from_dict` reads back."""
    return {"operator": workload.operator, **workload.key_fields()}


def from_dict(mapping: Mapping[str, Any]) -> Workload:
    """The workload that `to_dict` wrote; raises ValueError for anything else."""
    fields = dict(mapping)
    _load_operators()
    cls = Workload.OPERATORS.get(fields.pop("operator", None))
    if cls is None:
        known = sorted(Workload.OPERATORS)
        raise ValueError(f"unknown operator in workload {mapping!r}; known: {known}")
    try:
        made: Workload = _made(cls, fields)
        return made
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(f"not a workload: {mapping!r} ({error})") from error


@functools.cache
def _load_operators() -> None:
    """Import the operators that come with autoq."""
    modules_of("autoq.templates.operators")


def _made(cls: type, fields: Any) -> Any:
    """The dataclass of fields as JSON gave them; TypeError for wrong names or types."""
    if not isinstance(fields, Mapping):
        raise TypeError(f"{cls.__name__} is {fields!r}, not a mapping")
    known = kinds(cls)
    for name, value in fields.items():
        if name not in known:
            raise TypeError(f"{name} = {value!r}; no such field is expected")
    return cls(**{name: _value(known[name], value, name) for name, value in fields.items()})


def _value(kind: Any, value: Any, name: str) -> Any:
    """A value of a field, lists as tuples."""
    if isinstance(kind, types.UnionType) and isinstance(value, Mapping):
        kind = next((one for one in kind.__args__ if dataclasses.is_dataclass(one)), kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return value if isinstance(value, kind) else _made(kind, value)
    value = tuple(value) if isinstance(value, list) else value
    if not is_a(kind, value):
        raise TypeError(expectation(name, kind, value))
    return value


def key(workload: Workload) -> str:
    """A stable one-line text that names the workload in records."""
    return json.dumps(to_dict(workload), sort_keys=True, separators=(",", ":"))
