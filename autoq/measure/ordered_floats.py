"""Floats as integers in the same order, since processors compare integers of 16 bits faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from ml_dtypes import finfo

# Elements whose limits are worked out at once, in float64.
_PART = 1 << 16
_INTEGERS = {1: np.int8, 2: np.int16, 4: np.int32}


def ordered(values: np.ndarray) -> np.ndarray:
    """Integers in the order of floats: their bits, those below the sign turned where it is set.

    -0 is -1, which is just below 0; NaNs lie beyond the infinities, or what comes last. values: of
    any shape and of a float type of 1, 2 or 4 bytes, and so are the integers.
    """
    bits = values.view(_INTEGERS[values.dtype.itemsize])
    found = bits >> (8 * bits.itemsize - 1)
    found &= np.iinfo(bits.dtype).max
    found ^= bits
    return found


def ordered_limits(
    expected: np.ndarray,
    bound: np.ndarray,
    spread: Callable[[Callable[[slice], Any], Iterator[slice]], Iterable[Any]] = map,
) -> tuple[np.ndarray, np.ndarray]:
    """`ordered` of the least and of the largest float that is at most a bound away from another.

    expected: floats [n] of a type that `ordered` takes; bound: float32 [n]. An infinity stands for
    all that is as large as the largest finite float or larger, which its bound is counted from.
    Nothing lies between the limits of a NaN. spread: `map`, or that of an executor whose threads
    share the work.
    """
    integers = _INTEGERS[expected.dtype.itemsize]
    low, high = np.empty(expected.size, integers), np.empty(expected.size, integers)

    def fill(part: slice) -> None:
        low[part], high[part] = _limits(expected[part], bound[part])

    for _ in spread(fill, (slice(at, at + _PART) for at in range(0, expected.size, _PART))):
        pass
    return low, high


def _limits(expected: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    largest = float(finfo(expected.dtype).max)
    wide = expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        middle = np.clip(wide, -largest, largest)
        least = np.clip(middle - bound, -largest, largest)
        most = np.clip(middle + bound, -largest, largest)
        low, value = _nearest(least, expected.dtype)
        low = np.where(value == 0, np.where(least > 0, 1, -1), low + (value < least))
        high, value = _nearest(most, expected.dtype)
        high = np.where(value == 0, np.where(most < 0, -2, 0), high - (value > most))
    ends = np.iinfo(_INTEGERS[expected.dtype.itemsize])
    infinite = np.isinf(wide)
    low = np.where(infinite & (wide < 0), ordered(expected), low)
    high = np.where(infinite & (wide > 0), ordered(expected), high)
    unknown = np.isnan(wide)
    return np.where(unknown, ends.max, low), np.where(unknown, ends.min, high)


def _nearest(wanted: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """A float next to each number, as `ordered` has it in int64, and as float64."""
    found = wanted.astype(dtype)
    return ordered(found).astype(np.int64), found.astype(np.float64)
