"""Intervals of float32 tensors: what sums and products of them may come to.

Where all values are multiples of a power of two that float32 holds exactly, bounds stay as they
are; else they are widened by what float32 sums in any order may be off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

ULP = 2.0**-24


@dataclass
class Bounds:
    """Least and greatest value of each element, float64.

    grid: all values are multiples of this power of two, None where nothing of the kind is known.
    scale: that of dequantised integers. step: that of their products, for sums of such products,
    per channel and broadcastable; a kernel may round a constant that is added to whole steps.
    """

    low: np.ndarray
    high: np.ndarray
    grid: float | None = None
    scale: np.ndarray | None = None
    step: np.ndarray | None = None
    constant: bool = False

    @classmethod
    def of(cls, array: np.ndarray, constant: bool) -> Bounds:
        """Known numbers."""
        value = array.astype(np.float64)
        return cls(value, value, _grid(value), constant=constant)

    @property
    def largest(self) -> np.ndarray:
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> Bounds:
        """Elements moved, the same for both ends."""
        scale = self.scale if np.ndim(self.scale) == 0 else None
        low, high = function(self.low), function(self.high)
        return Bounds(low, high, self.grid, scale, constant=self.constant)


def _grid(value: np.ndarray) -> float | None:
    """The power of two down to 2**-20 that every number is a multiple of, if there is one."""
    for exponent in range(0, 21, 2):
        scaled = value * 2.0**exponent
        if np.array_equal(scaled, np.rint(scaled)):
            return 2.0**-exponent
    return None


def is_power_of_two(value: float) -> bool:
    return math.frexp(value)[0] == 0.5


def widened(low: np.ndarray, high: np.ndarray, error: Any, grid: float | None, reach: Any
             ) -> Bounds:  # fmt: skip
    """Bounds of a float32 result: exact where all partial results up to `reach` are."""
    if grid is not None and np.max(reach, initial=0) <= grid * 2.0**24:
        return Bounds(low, high, grid)
    return Bounds(low - error, high + error)


def sum_of(a: Bounds, b: Bounds, sign: float = 1.0) -> Bounds:
    grid = None if a.grid is None or b.grid is None else min(a.grid, b.grid)
    other = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
    reach = a.largest + b.largest
    result = widened(a.low + other[0], a.high + other[1], 4 * ULP * reach, grid, reach)
    for one, bias in ((a, b), (b, a)):
        if one.step is not None and bias.constant:
            _round_bias(result, one.step, bias)
    return result


def _round_bias(result: Bounds, step: np.ndarray, bias: Bounds) -> None:
    """Allow for a bias that is rounded to whole steps."""
    error = np.abs(bias.low - np.rint(bias.low / step) * step)
    error = np.where(error > 1e-6 * step, error, 0.0)
    if np.any(error):
        result.low, result.high, result.grid = result.low - error, result.high + error, None
    result.step = step


def product_of(a: Bounds, b: Bounds) -> Bounds:
    ends = np.stack(np.broadcast_arrays(*(x * y for x in (a.low, a.high) for y in (b.low, b.high))))
    grid = None if a.grid is None or b.grid is None else a.grid * b.grid
    reach = a.largest * b.largest
    result = widened(ends.min(0), ends.max(0), 4 * ULP * reach, grid, reach)
    for one, other in ((a, b), (b, a)):
        if one.step is not None and other.constant:
            result.step = one.step * np.abs(other.low)
    return result


def linear_of(node: Any, x: Bounds, w: Bounds, product: Callable[..., np.ndarray]) -> Bounds:
    """A product with constants `w`: its negative part takes the other end."""
    positive, negative = np.maximum(w.low, 0), np.minimum(w.low, 0)
    low = product(x.low, positive) + product(x.high, negative)
    high = product(x.high, positive) + product(x.low, negative)
    reach = product(x.largest, np.abs(w.low))
    grid = None if x.grid is None or w.grid is None else x.grid * w.grid
    error = (w.low[0].size + 8) * ULP * reach
    return widened(low, high, error, grid, reach)
