"""Workloads as JSON: the stable key by which records know them."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

from autoq.templates.discovery import modules_of
from autoq.templates.epilogue import Epilogue
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
        if "epilogue" in fields:
            fields["epilogue"] = Epilogue(**_typed(Epilogue, fields["epilogue"]))
        return cls(**_typed(cls, fields))
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(f"not a workload: {mapping!r} ({error})") from error


@functools.cache
def _load_operators() -> None:
    """Import the operators that come with autoq."""
    modules_of("autoq.templates.operators")


def _typed(cls: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a dataclass as JSON gave them, lists as tuples; TypeError for wrong types."""
    if not isinstance(fields, Mapping):
        raise TypeError(f"{cls.__name__} is {fields!r}, not a mapping")
    types = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    checked = {}
    for name, value in fields.items():
        value = tuple(value) if isinstance(value, list) else value
        if name not in types or not _is_a(types[name], value):
            raise TypeError(f"{name} = {value!r}; {types.get(name, 'no such field')} is expected")
        checked[name] = value
    return checked


def _is_a(annotation: str, value: Any) -> bool:
    if annotation.startswith("tuple["):
        items = annotation.removeprefix("tuple[").removesuffix("]").split(", ")
        length = None if items[-1] == "..." else len(items)
        return (
            isinstance(value, tuple)
            and length in (None, len(value))
            and all(_is_a(items[0], item) for item in value)
        )
    if annotation == "int":
        return type(value) is int and value >= 0
    simple = {"str": str, "bool": bool, "Epilogue": Epilogue, "str | None": str | None}
    return isinstance(value, simple[annotation])


def key(workload: Workload) -> str:
    """A stable one-line text that names the workload in records."""
    return json.dumps(to_dict(workload), sort_keys=True, separators=(",", ":"))
