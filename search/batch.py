"""A plain function of one configuration over a batch of them, by lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from autoq.search.knobs import Knobs
from autoq.search.lanes import Diverged, Lanes
from autoq.search.traced import Reads, traced_type

# In smaller parts of a batch configurations are taken one by one: a run over lanes costs as much as
# some thirty single ones of a short rule.
_LEAST_LANES = 32
# A function that asks too much is taken one by one after so many runs over a batch.
_FREE_RUNS, _LANES_PER_RUN = 8, 50
# What a function may raise over lanes, where it wants a number, or where it would for one of them.
_REFUSALS = (TypeError, ValueError, AttributeError, ArithmeticError, LookupError)

Columns = Sequence[np.ndarray]
"""For each knob the positions of chosen values in its list, int64 [configurations]."""


class Batched:
    """A function of configurations, over arrays of them.

    Args:
        function: of one configuration, on which alone its result depends.
        config_type: dataclass of the configurations.
        knobs: their knobs.
    """

    def __init__(
        self, function: Callable[[Any], Any], config_type: type[Any], knobs: Knobs
    ) -> None:
        self._function = function
        self._config_type, self._names = config_type, knobs.names
        self._traced = traced_type(config_type, knobs.names)
        self._choices = [_Choices(values) for values in knobs.values]
        self.alone = 0
        """Configurations that were taken one by one so far."""

    def over(
        self, columns: Columns, rows: np.ndarray, reads: Reads | None = None
    ) -> list[tuple[Any, Any]]:
        """What the function returns for rows [n], part by part: lanes, or one value for all.

        A part is positions in rows, int64 [lanes]. reads takes in the positions of the knobs that
        were read, where somebody asks.
        """
        found = []
        waiting = [np.arange(len(rows))]
        noted = Reads() if reads is None else reads
        runs = _FREE_RUNS + len(rows) // _LANES_PER_RUN
        while waiting:
            part = waiting.pop()
            runs -= 1
            if len(part) < _LEAST_LANES or runs < 0:
                found += self._one_by_one(columns, rows, part, reads)
                continue
            values = _Values(self._choices, columns, rows[part])
            try:
                with np.errstate(divide="raise", invalid="raise"):
                    found.append((part, self._function(self._traced(values, noted))))
            except Diverged as split:
                waiting += _split(part, split.labels)
            except _REFUSALS:
                found += self._one_by_one(columns, rows, part, reads)
        return found

    def _one_by_one(
        self, columns: Columns, rows: np.ndarray, part: np.ndarray, reads: Reads | None
    ) -> list[tuple[Any, Any]]:
        self.alone += len(part)
        chosen = [
            map(choices.values.__getitem__, column[rows[part]].tolist())
            for choices, column in zip(self._choices, columns, strict=True)
        ]
        every = zip(*chosen, strict=True)
        if reads is None:
            configs = (
                self._config_type(**dict(zip(self._names, one, strict=True))) for one in every
            )
        else:
            configs = (self._traced(one, reads) for one in every)
        return [(part[i : i + 1], self._function(config)) for i, config in enumerate(configs)]


def values_over(space: Any, codes: np.ndarray, function: Callable[[Any], Any]) -> np.ndarray:
    """A number that a plain function of one configuration has for each code [n] of a space.

    float64 [n]; truth values are 0 and 1.
    """
    knobs = Knobs(space.knobs)
    found = np.empty(len(codes))
    batched = Batched(function, space.config_type, knobs)
    for part, value in batched.over(knobs.positions(codes), np.arange(len(codes))):
        found[part] = value.values if type(value) is Lanes else value
    return found


def _split(part: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(labels, kind="stable")
    ends = np.flatnonzero(np.diff(labels[order])) + 1
    return np.split(part[order], ends)


class _Values:
    """The values of all knobs of a batch, made when they are asked for."""

    def __init__(self, choices: list[_Choices], columns: Columns, rows: np.ndarray) -> None:
        self._choices, self._columns, self._rows = choices, columns, rows
        self._held: dict[int, Any] = {}

    def __getitem__(self, knob: int) -> Any:
        if knob not in self._held:
            self._held[knob] = self._choices[knob].of(self._columns[knob][self._rows])
        return self._held[knob]


class _Choices:
    """The values of one knob, and those of the attributes of such values."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)
        kinds = {type(value) for value in values}
        self._numbers: np.ndarray | None = None
        if kinds <= {int} or kinds <= {float, int} or kinds <= {bool}:
            self._numbers = np.array(values)
        self._objects = all(is_dataclass(value) for value in values)
        self._attributes: dict[str, _Choices | None] = {}
        self.kind = kinds.pop() if len(kinds) == 1 else None

    def of(self, positions: np.ndarray) -> Any:
        """What stands for the values at positions [lanes]: lanes, objects, or one value."""
        if (positions == positions[0]).all():
            return self.values[positions[0]]
        if self._numbers is not None:
            numbers = self._numbers[positions]
            return numbers[0].item() if (numbers == numbers[0]).all() else Lanes(numbers)
        if self._objects:
            return _Objects(self, positions)
        return self._only(positions)

    def _only(self, positions: np.ndarray) -> Any:
        """The value of all positions, of kinds that have no lanes; Diverged where they differ."""
        labels = np.empty(len(self.values), np.int64)
        known: list[Any] = []
        used = np.flatnonzero(np.bincount(positions)).tolist()
        kind = type(self.values[used[0]])
        if kind in (int, bool) and all(type(self.values[i]) is kind for i in used):
            numbers = [value if type(value) is kind else kind() for value in self.values]
            return Lanes(np.array(numbers)[positions])
        # Kinds are told apart first: numbers among them have lanes.
        apart = len({type(self.values[i]) for i in used}) > 1
        for i in used:
            key = type(self.values[i]) if apart else self.values[i]
            at = next((j for j, one in enumerate(known) if one is key or one == key), len(known))
            if at == len(known):
                known.append(key)
            labels[i] = at
        if len(known) == 1:
            return self.values[positions[0]]
        raise Diverged(labels[positions])

    def attribute(self, name: str) -> _Choices | None:
        """The attributes of all values; None where one has none."""
        if name not in self._attributes:
            try:
                found = _Choices([getattr(value, name) for value in self.values])
            except _REFUSALS:
                found = None
            self._attributes[name] = found
        return self._attributes[name]


class _Objects:
    """Dataclasses of many configurations: their attributes are lanes or objects again."""

    __array_ufunc__ = None

    def __init__(self, choices: _Choices, positions: np.ndarray) -> None:
        self.__dict__["_held"] = choices, positions

    def __getattr__(self, name: str) -> Any:
        choices, positions = self.__dict__["_held"]
        method = getattr(choices.kind or self.__class__, name, None)
        if isinstance(method, FunctionType):
            return MethodType(method, self)
        if (attributes := choices.attribute(name)) is not None:
            return attributes.of(positions)
        # Some values of the knob have not what those have that are chosen here.
        chosen = np.bincount(positions, minlength=len(choices.values)) > 0
        used = np.flatnonzero(chosen)
        back = (np.cumsum(chosen) - 1)[positions]
        return _Choices([getattr(choices.values[i], name) for i in used]).of(back)

    if not TYPE_CHECKING:  # to which it is what it is

        @property
        def __class__(self) -> type[Any]:
            """isinstance asks this: a rule that tells kinds of values apart splits the batch."""
            choices, positions = self.__dict__["_held"]
            if choices.kind is not None:
                return choices.kind
            kinds = [type(choices.values[i]) for i in range(len(choices.values))]
            places = np.array([kinds.index(kind) for kind in kinds])[positions]
            if (places == places[0]).all():
                return kinds[places[0]]
            raise Diverged(places)

    def __eq__(self, other: object) -> Any:
        choices, positions = self.__dict__["_held"]
        if type(other) is _Objects:
            self.__hash__()
        return Lanes(np.array([value == other for value in choices.values])[positions])

    def __ne__(self, other: object) -> Any:
        return Lanes(~(self == other).values)

    def __hash__(self) -> int:
        _, positions = self.__dict__["_held"]
        raise Diverged(np.unique(positions, return_inverse=True)[1])

    def __repr__(self) -> str:
        return repr(hash(self))
