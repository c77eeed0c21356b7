"""Numbers of many configurations at once, through which a plain function of one runs.

A `Lanes` has one number for each configuration of a batch and computes as a number does. Where a
function asks a question that has one answer, such as `if` or `max`, and the lanes have several, it
is left by `Diverged`, and `Batched` runs it again on each part of the batch that agrees. What it
returns is what it would have returned for each configuration by itself. `most`, `least`, `choose`,
`looked_up` and `of_each` are for functions that ask often: they take lanes and numbers alike and
split none.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

_LARGEST = float(1 << 62)


class Diverged(BaseException):
    """A question to which lanes have several answers: labels int [lanes] tell them apart."""

    def __init__(self, labels: np.ndarray) -> None:
        super().__init__("lanes disagree")
        self.labels = labels


class Lanes:
    """A number, or truth value, of each configuration of a batch: values [lanes]."""

    __array_ufunc__ = None  # numpy's own scalars leave the arithmetic to this class
    __slots__ = ("values",)

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def one(self) -> Any:
        """The number of all lanes; raises Diverged where they differ."""
        first = self.values[0]
        if (self.values == first).all():
            return first.item()
        raise Diverged(np.unique(self.values, return_inverse=True)[1])

    if not TYPE_CHECKING:  # to which it is what it is

        @property
        def __class__(self) -> type[Any]:
            """isinstance asks this: a rule that tells numbers from texts has one answer."""
            return {"b": bool, "i": int, "f": float}[self.values.dtype.kind]

    def __bool__(self) -> bool:
        truth = self.values.astype(bool)
        if truth.all():
            return True
        if not truth.any():
            return False
        raise Diverged(truth.astype(np.int64))

    def __index__(self) -> int:
        return operator.index(self.one())

    def __int__(self) -> int:
        return int(self.one())

    def __float__(self) -> float:
        return float(self.one())

    def __hash__(self) -> int:
        return hash(self.one())

    def __format__(self, spec: str) -> str:
        return format(self.one(), spec)

    def __repr__(self) -> str:
        return repr(self.one())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.one(), digits)

    def __abs__(self) -> Any:
        return Lanes(np.abs(_number(self.values)))

    def __neg__(self) -> Any:
        return Lanes(-_number(self.values))

    def __pos__(self) -> Any:
        return Lanes(_number(self.values))

    def __ceil__(self) -> Any:
        return Lanes(np.ceil(self.values).astype(np.int64))

    def __floor__(self) -> Any:
        return Lanes(np.floor(self.values).astype(np.int64))

    def __trunc__(self) -> Any:
        return Lanes(np.trunc(self.values).astype(np.int64))


def _number(value: Any) -> Any:
    """Truth values as the integers that Python counts them as."""
    if isinstance(value, np.ndarray):
        return value.astype(np.int64) if value.dtype == np.bool_ else value
    return int(value) if isinstance(value, bool) else value


def _plain(value: Any) -> Any:
    """The array of lanes, or a number; NotImplemented for what does not compute with lanes."""
    if type(value) is Lanes:
        return value.values
    return value if type(value) in (int, float, bool) else NotImplemented


def _binary(compute: Callable[[Any, Any], Any], numbers: bool = True) -> Any:
    """The methods of an operator and of its mirror image."""

    def apply(left: Any, right: Any) -> Any:
        if left is NotImplemented or right is NotImplemented:
            return NotImplemented
        if numbers:
            left, right = _number(left), _number(right)
        return Lanes(compute(left, right))

    def forward(self: Lanes, other: Any) -> Any:
        return apply(self.values, _plain(other))

    def mirrored(self: Lanes, other: Any) -> Any:
        return apply(_plain(other), self.values)

    return forward, mirrored


def _product(left: Any, right: Any) -> Any:
    """left * right, where integers stay exact; raises OverflowError where int64 is too small."""
    found = left * right
    if found.dtype.kind == "i" and len(found):
        largest = float(np.abs(left).max()) * float(np.abs(right).max())
        if largest > _LARGEST:
            raise OverflowError("a product of lanes does not fit int64")
    return found


def _shifted(left: Any, right: Any) -> Any:
    return _product(left, np.left_shift(np.int64(1), right))


for _name, _compute in {
    "add": operator.add, "sub": operator.sub, "mul": _product, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "lshift": _shifted,
    "rshift": operator.rshift, "pow": operator.pow,
}.items():  # fmt: skip
    _forward, _mirrored = _binary(_compute)
    setattr(Lanes, f"__{_name}__", _forward)
    setattr(Lanes, f"__r{_name}__", _mirrored)
for _name in ("and_", "or_", "xor"):
    _forward, _mirrored = _binary(getattr(operator, _name), numbers=False)
    setattr(Lanes, f"__{_name.rstrip('_')}__", _forward)
    setattr(Lanes, f"__r{_name.rstrip('_')}__", _mirrored)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Lanes, f"__{_name}__", _binary(getattr(operator, _name))[0])


def most(first: Any, *others: Any) -> Any:
    """The largest of numbers, lane by lane where some are lanes."""
    for other in others:
        first = _either(first, other, np.maximum, max)
    return first


def least(first: Any, *others: Any) -> Any:
    """The smallest of numbers, lane by lane where some are lanes."""
    for other in others:
        first = _either(first, other, np.minimum, min)
    return first


def _either(first: Any, second: Any, lanes: Any, numbers: Any) -> Any:
    if type(first) is Lanes or type(second) is Lanes:
        return Lanes(lanes(_number(_plain(first)), _number(_plain(second))))
    return numbers(first, second)


def choose(condition: Any, then: Any, otherwise: Any) -> Any:
    """`then if condition else otherwise` of numbers, both of which are computed."""
    if type(condition) is not Lanes:
        return then if condition else otherwise
    return Lanes(np.where(condition.values, _plain(then), _plain(otherwise)))


def looked_up(table: Mapping[Any, float], key: Any, otherwise: float) -> Any:
    """`table.get(key, otherwise)` of numbers."""
    if type(key) is not Lanes:
        return table.get(key, otherwise)
    found = np.full(len(key.values), otherwise)
    for one, value in table.items():
        found[key.values == one] = value
    return Lanes(found)


def of_each(function: Callable[..., Sequence[float]], *arguments: Any) -> Sequence[Any]:
    """Numbers that a function returns, which is asked once for each distinct choice of lanes."""
    if not any(type(one) is Lanes for one in arguments):
        return function(*arguments)
    rows = np.stack(np.broadcast_arrays(*(_number(_plain(one)) for one in arguments)))
    choices, back = np.unique(rows, axis=1, return_inverse=True)
    found = np.array([function(*choice) for choice in choices.T.tolist()])
    return [Lanes(column[back.ravel()]) for column in found.T]


def log2(value: Any) -> Any:
    """Binary logarithm of a number or of lanes."""
    return Lanes(np.log2(value.values)) if type(value) is Lanes else math.log2(value)
