"""Values: functions from indices to TE expressions.

Elementwise primitives compose such functions; nothing is stored until `output`, or a reduction that
reads its input more than once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

Index = Sequence[Any]


@dataclass(frozen=True)
class Value:
    """An array that is computed where it is read."""

    shape: tuple[int, ...]
    dtype: str
    at: Callable[[Index], Any]
    is_stored: bool = False

    @classmethod
    def of(cls, tensor: te.Tensor) -> Value:
        """A stored array."""
        shape = tuple(int(size) for size in tensor.shape)
        return cls(
            shape,
            str(tensor.dtype),
            lambda index: tensor[tuple(index)] if shape else tensor(),
            is_stored=True,
        )

    def broadcast_at(self, index: Index) -> Any:
        """The element that numpy's broadcasting puts at `index` of a larger array."""
        tail = list(index)[len(index) - len(self.shape) :]
        return self.at([0 if size == 1 else i for size, i in zip(self.shape, tail, strict=True)])


def output(value: Value, shape: tuple[int, ...], dtype: str) -> te.Tensor:
    """The stored result of a fusion."""
    if value.shape != shape:
        raise ValueError(f"the last primitive gives {value.shape}, the fusion {shape}")
    return te.compute(shape, lambda *index: value.at(index).astype(dtype), name="y")


def stored(value: Value, name: str) -> Value:
    """The value as an array of its own, itself if it is one."""
    if value.is_stored:
        return value
    return Value.of(te.compute(value.shape, lambda *index: value.at(index), name=name))


def constant(value: float, dtype: str = "float32") -> Any:
    """A constant expression."""
    return tirx.const(value, dtype)


def clip(x: Any, low: float, high: float) -> Any:
    """float32 `x` clamped, NaN staying NaN; infinite bounds are left out."""
    inside = tirx.Select(x > constant(high), constant(high), x) if high < math.inf else x
    if low == -math.inf:
        return inside
    return tirx.Select(x < constant(low), constant(min(low, high)), inside)


def clip_numbers(x: Any, low: float, high: float) -> Any:
    """float32 `x` clamped to finite bounds on its way to an integer: NaN becomes `low`.

    Code for CPUs gives a maximum's second operand where a comparison with NaN fails.
    """
    return tirx.min(tirx.max(x, constant(low)), constant(high))


def is_number(x: Any) -> Any:
    """Whether float32 `x` is not NaN; TVM simplifies `x == x` and negated comparisons."""
    return x <= constant(math.inf)


def largest(a: Any, b: Any) -> Any:
    """The larger one of two float32, NaN if either is: then neither comparison holds."""
    return tirx.Select(a > b, a, tirx.Select(b >= a, b, a + b))


def least(a: Any, b: Any) -> Any:
    """The smaller one of two float32, NaN if either is."""
    return tirx.Select(a < b, a, tirx.Select(b <= a, b, a + b))
