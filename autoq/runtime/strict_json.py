"""Dataclasses out of JSON values that nobody vouches for: names, types and ranges are checked."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any

LARGEST = 2**63 - 1
"""The largest magnitude of a number, as wide as a C integer."""


def parse(text: bytes) -> Any:
    """The value of a JSON text; raises ValueError for any other, however deep it is nested."""
    try:
        return json.loads(text.decode())
    except RecursionError:
        raise ValueError("values are nested too deep") from None


def decode(kind: Any, value: Any, name: str, **given: Any) -> Any:
    """`value` as `kind`: bool, int, float, str, a dataclass, or a tuple or union of such.

    A dataclass is an object with its fields, those with a default optional and those in `given`
    absent; in a union the key "type" names it. Raises ValueError that begins with `name`.
    """
    if typing.get_origin(kind) is tuple:
        return _tuple(typing.get_args(kind), value, name)
    if isinstance(kind, types.UnionType):
        return _tagged(typing.get_args(kind), value, name)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, name, given)
    return _scalar(kind, value, name)


def _scalar(kind: type, value: Any, name: str) -> Any:
    allowed = (int, float) if kind is float else (kind,)
    if type(value) not in allowed:  # bool is an int to isinstance
        raise ValueError(f"{name}: expected {kind.__name__}, found {type(value).__name__}")
    if isinstance(value, int | float) and not abs(value) <= LARGEST:  # nor is NaN
        raise ValueError(f"{name}: a number that is out of range")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name}: text that is no Unicode") from error
    return value


def _tuple(kinds: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name}: expected a list, found {type(value).__name__}")
    if kinds[1:] == (...,):
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        raise ValueError(f"{name}: expected {len(kinds)} values, found {len(value)}")
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(decode(kind, item, f"{name}[{index}]") for index, (kind, item) in pairs)


def _tagged(kinds: tuple[Any, ...], value: Any, name: str) -> Any:
    tags = {kind.__name__: kind for kind in kinds}
    tag = value.get("type") if isinstance(value, dict) else None
    if not isinstance(tag, str) or tag not in tags:
        raise ValueError(f"{name}: expected an object whose type is one of {', '.join(tags)}")
    return decode(tags[tag], {key: item for key, item in value.items() if key != "type"}, name)


def _dataclass(kind: Any, value: Any, name: str, given: dict[str, Any]) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{name}: expected an object, found {type(value).__name__}")
    hints = _hints(kind)
    fields = [field for field in dataclasses.fields(kind) if field.name not in given]
    unknown = sorted(value.keys() - {field.name for field in fields})
    if unknown:
        raise ValueError(f"{name}: unknown field {unknown[0]!r}")
    for field in fields:
        if field.name in value:
            label = f"{name}.{field.name}"
            given[field.name] = decode(hints[field.name], value[field.name], label)
        elif field.default is dataclasses.MISSING:
            raise ValueError(f"{name}: no field {field.name!r}")
    return kind(**given)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)
