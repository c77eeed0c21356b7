"""The knobs of a space: names with value lists, mixed-radix codes, and model columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from autoq.errors import ConfigError

# A code must fit int64 also after a union has multiplied it by its number of templates.
_MAX_SIZE = 1 << 55


def plain(value: Any) -> Any:
    """A knob's value ready for JSON.

    A frozen dataclass becomes an object of its fields, an enum's member its value, a tuple a list.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


def plain_config(config: Any) -> dict[str, Any]:
    """The knobs of a configuration ready for JSON, in the order of its fields."""
    return {field.name: plain(getattr(config, field.name)) for field in fields(config)}


class Knobs:
    """Named knobs and their values, in a fixed order.

    The *code* of a choice of values is its position in the product of all value lists, last
    knob fastest: one int64 stands for one configuration in everything that is vectorised.

    Raises:
        ConfigError: for a knob without values or with repeated or unstorable ones.
    """

    def __init__(self, values: Mapping[str, Sequence[Any]]) -> None:
        if not values:
            raise ConfigError("a space needs at least one knob")
        self.names = tuple(values)
        self.values = tuple(tuple(values[name]) for name in self.names)
        for name, choices in zip(self.names, self.values, strict=True):
            _check_values(name, choices)
        self.size = prod(len(choices) for choices in self.values)
        if self.size > _MAX_SIZE:
            raise ConfigError(f"space has {self.size} points, at most {_MAX_SIZE} are allowed")
        self.dims = np.array([len(choices) for choices in self.values], dtype=np.int64)
        strides = [prod(self.dims[i + 1 :].tolist()) for i in range(len(self.dims))]
        self.strides = np.array(strides, dtype=np.int64)
        self._position = [
            {_key(value): i for i, value in enumerate(choices)} for choices in self.values
        ]
        encoded = [_columns(n, c) for n, c in zip(self.names, self.values, strict=True)]
        self.columns = tuple(name for names, _ in encoded for name in names)
        self._encodings = [matrix for _, matrix in encoded]

    def indices(self, codes: np.ndarray) -> np.ndarray:
        """Positions in the value lists: int64 [n, knobs] for codes [n]."""
        return codes[:, None] // self.strides % self.dims

    def positions(self, codes: np.ndarray) -> list[np.ndarray]:
        """For each knob the positions in its value list: int64 [n] for codes [n]."""
        found = []
        for dim in reversed(self.dims.tolist()):
            if dim == 1:
                found.append(np.zeros_like(codes))
                continue
            rest = codes // dim  # by one number, which numpy divides by faster than divmod does
            found.append(codes - rest * dim)
            codes = rest
        return found[::-1]

    def codes(self, indices: np.ndarray) -> np.ndarray:
        """Codes int64 [n] of value positions [n, knobs]."""
        return indices @ self.strides

    def at(self, code: int) -> tuple[Any, ...]:
        """The values, in knob order, that a code stands for."""
        found = []
        for choices in reversed(self.values):
            code, index = divmod(code, len(choices))
            found.append(choices[index])
        return tuple(reversed(found))

    def rows(self, codes: np.ndarray) -> Iterator[tuple[Any, ...]]:
        """The values, in knob order, of each of codes [n]; faster than at for many codes."""
        chosen = [
            map(choices.__getitem__, column.tolist())
            for choices, column in zip(self.values, self.indices(codes).T, strict=True)
        ]
        return zip(*chosen, strict=True)

    def index(self, position: int, value: Any) -> int | None:
        """Where value stands in the list of the knob at a position; None when it does not."""
        try:
            return self._position[position].get(_key(value))
        except TypeError:
            return None

    def encode(self, codes: np.ndarray) -> np.ndarray:
        """Model columns of the knobs: float32 [n, len(self.columns)]."""
        indices = self.indices(codes)
        parts = [matrix[indices[:, i]] for i, matrix in enumerate(self._encodings)]
        return np.concatenate(parts, axis=1)


def _check_values(name: str, choices: tuple[Any, ...]) -> None:
    if not choices:
        raise ConfigError(f"knob {name!r} has no values")
    for value in choices:
        if not _storable(value):
            raise ConfigError(
                f"knob {name!r}: {value!r} is no JSON value, enum member, frozen dataclass or tuple"
            )
    if len({_key(value) for value in choices}) != len(choices):
        raise ConfigError(f"knob {name!r} repeats a value in {choices}")


def _storable(value: Any) -> bool:
    if isinstance(value, Enum):
        return _storable(value.value)
    if isinstance(value, tuple):
        return all(_storable(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        frozen = type(value).__dataclass_params__.frozen
        return frozen and all(_storable(getattr(value, field.name)) for field in fields(value))
    return value is None or isinstance(value, (bool, int, float, str))


_PLAIN = frozenset((bool, int, float, str, type(None)))


def _key(value: Any) -> tuple[bool, Any]:
    """What makes two values the same knob value: True is not 1, JSON's list is a tuple.

    An enum's member is its value and a dataclass the object of its fields, as JSON has them.
    """
    kind = type(value)
    if kind in _PLAIN:  # almost all, and tuners ask a million times
        return kind is bool, value
    if isinstance(value, (list, tuple)):
        return False, tuple(_key(item) for item in value)
    if isinstance(value, dict):
        return False, frozenset((name, _key(item)) for name, item in value.items())
    if isinstance(value, Enum):
        return _key(value.value)
    return _dataclass_key(value) if is_dataclass(value) else (isinstance(value, bool), value)


@lru_cache(maxsize=1 << 12, typed=True)
def _dataclass_key(value: Any) -> tuple[bool, Any]:
    return _key({field.name: getattr(value, field.name) for field in fields(value)})


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _columns(name: str, choices: tuple[Any, ...]) -> tuple[list[str], np.ndarray]:
    """Column names and their values float32 [choices, columns] of one knob.

    The fields of dataclasses and the items of tuples are columns by themselves, and what a value
    lacks is NaN. Texts and members of enums are one-hot, and so are the kinds of mixed values.
    """
    if all(isinstance(value, bool) for value in choices):
        return [name], np.array(choices, dtype=np.float32)[:, None]
    if all(_is_number(value) or value is None for value in choices):
        raw = np.array([np.nan if value is None else value for value in choices], np.float32)
        if (raw[~np.isnan(raw)] > 0).all():
            return [name, f"log2({name})"], np.stack([raw, np.log2(raw)], axis=1)
        return [name], raw[:, None]
    parts = [_parts(value) for value in choices]
    if not any(parts):
        return [f"{name}={value}" for value in choices], np.eye(len(choices), dtype=np.float32)
    names: list[str] = []
    blocks: list[np.ndarray] = []
    kinds = list(dict.fromkeys(type(value).__name__ for value in choices))
    if len(kinds) > 1:
        names += [f"{name}:{kind}" for kind in kinds]
        blocks.append(np.array([[type(v).__name__ == k for k in kinds] for v in choices]))
    for field in dict.fromkeys(field for part in parts for field in part):
        own, block = _columns(f"{name}.{field}", tuple(part.get(field) for part in parts))
        names += own
        blocks.append(block)
    return names, np.concatenate(blocks, axis=1).astype(np.float32)


def _parts(value: Any) -> dict[str, Any]:
    """The fields of a dataclass or the items of a tuple, by name; none of anything else."""
    if isinstance(value, tuple):
        return {str(i): item for i, item in enumerate(value)}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return {}
