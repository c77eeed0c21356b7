"""Fields of dataclasses that users make: of their annotated types, extents, heights of vectors."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from autoq.errors import InputError


def require_types(value: Any) -> None:
    """Raise InputError unless `is_a` holds for every field that a key holds and its annotation."""
    for name, kind in kinds(type(value)).items():
        given = getattr(value, name)
        if not _check(kind)(given):
            raise InputError(f"{type(value).__name__}: {expectation(name, kind, given)}")


def require_positive(value: Any, *names: str) -> None:
    """Raise InputError unless these fields, integers or tuples of integers, are 1 or more."""
    for name in names:
        given = getattr(value, name)
        if min(given if isinstance(given, tuple) else (given,)) < 1:
            raise InputError(f"{type(value).__name__}: {name} = {given}; extents are at least 1")


def expectation(name: str, kind: Any, given: Any) -> str:
    """What is said of a field of another type."""
    wanted = "an integer from 0 on" if kind is int else getattr(kind, "__name__", kind)
    return f"{name} = {given!r:.80}; {wanted} is expected"


@functools.cache
def kinds(cls: type) -> dict[str, Any]:
    """Types of the fields that make a dataclass equal to another, by name."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.compare}


def is_a(kind: Any, value: Any) -> bool:
    """Whether a value is of an annotated type; integers count something, from 0 on."""
    return _check(kind)(value)


@functools.cache
def _check(kind: Any) -> Callable[[Any], bool]:
    """`is_a` of a type; thousands of records are read with a few types of fields."""
    if isinstance(kind, types.UnionType):
        checks = [_check(one) for one in typing.get_args(kind)]
        return lambda value: any(check(value) for check in checks)
    if typing.get_origin(kind) is tuple:
        return _check_tuple(*typing.get_args(kind))
    if typing.get_origin(kind) is typing.Literal:
        allowed = typing.get_args(kind)
        return lambda value: value in allowed
    if kind is int:
        return lambda value: type(value) is int and value >= 0
    return lambda value: isinstance(value, kind)


def _check_tuple(first: Any, *others: Any) -> Callable[[Any], bool]:
    """A check of tuples of one type: of as many items as it is named, or of any number."""
    check = _check(first)
    length = None if others == (...,) else 1 + len(others)
    return lambda value: (
        isinstance(value, tuple)
        and length in (None, len(value))
        and all(check(item) for item in value)
    )


def require_vector(vector: int, known: Sequence[int]) -> None:
    """Raise InputError unless vectors of so many rows are known."""
    if vector not in known:
        raise InputError(f"vectors of {vector} rows: choose one of {', '.join(map(str, known))}")
