"""Workloads as JSON: the stable key by which records know them."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Mapping
from typing import Any

from autoq.templates.discovery import modules_of
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
    kinds = _kinds(cls)
    for name, value in fields.items():
        if name not in kinds:
            raise TypeError(f"{name} = {value!r}; no such field is expected")
    return cls(**{name: _value(kinds[name], value, name) for name, value in fields.items()})


@functools.cache
def _kinds(cls: type) -> dict[str, Any]:
    """Types of the fields that a key holds."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.compare}


def _value(kind: Any, value: Any, name: str) -> Any:
    """A value of a field, lists as tuples."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return value if isinstance(value, kind) else _made(kind, value)
    value = tuple(value) if isinstance(value, list) else value
    if not _is_a(kind, value):
        raise TypeError(f"{name} = {value!r}; {getattr(kind, '__name__', kind)} is expected")
    return value


def _is_a(kind: Any, value: Any) -> bool:
    if isinstance(kind, types.UnionType):
        return any(_is_a(one, value) for one in typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        first, *others = typing.get_args(kind)
        length = None if others == [...] else 1 + len(others)
        return (
            isinstance(value, tuple)
            and length in (None, len(value))
            and all(_is_a(first, item) for item in value)
        )
    if typing.get_origin(kind) is typing.Literal:
        return value in typing.get_args(kind)
    if kind is int:
        return type(value) is int and value >= 0
    return isinstance(value, kind)


def key(workload: Workload) -> str:
    """A stable one-line text that names the workload in records."""
    return json.dumps(to_dict(workload), sort_keys=True, separators=(",", ":"))
