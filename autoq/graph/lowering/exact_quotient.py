"""Two numbers whose products take the place of a division by a constant, proved for all floats.

1 / scale is split into a float that is smaller and what is missing from it. The sum of their
products with x, the second rounded and the first not, grows with x as the quotient does, so that
both round to the same integers everywhere if they do so at both sides of each step between two.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

LEAST_SCALE = np.float32(2.0**-60)
"""Neither such a scale nor its reciprocal, nor a part of either, underflows beside a step."""
_NEIGHBOURS = 4
"""Floats on either side of an estimated step that are tried."""


@dataclass(frozen=True)
class Parts:
    """`large` + `small` is a reciprocal to 47 bits; small is 0 for powers of two, else positive."""

    large: np.float32
    small: np.float32


def split_reciprocal(value: np.float32) -> Parts:
    """1 / value for a positive value that, like its reciprocal, is far from under- and overflow.

    Both parts have the same sign, so that no infinity is taken from another one.
    """
    exact = 1 / Fraction(float(value))
    large = np.float32(1) / np.float32(value)
    if Fraction(float(large)) > exact:
        large = np.nextafter(large, np.float32(0))
    return Parts(large, np.float32(float(exact - Fraction(float(large)))))


@functools.lru_cache(1024)
def exact_parts(scale: float, low: float, high: float) -> Parts | None:
    """Parts by which `rint(x / scale)`, clamped to low and high, is found for every float32 x.

    scale is rounded to float32, low and high are whole numbers. None where the proof fails.
    """
    divisor = np.float32(scale)
    if not LEAST_SCALE < divisor < 1 / LEAST_SCALE:
        return None
    parts = split_reciprocal(divisor)
    steps = np.arange(low + 1, high + 1)
    at = (steps - 0.5).astype(np.float32) * divisor
    offsets = np.arange(-_NEIGHBOURS, _NEIGHBOURS + 1, dtype=np.int32)[:, np.newaxis]
    x = (at.view(np.int32) + np.where(at < 0, -offsets, offsets)).view(np.float32)
    wanted = np.rint(x / divisor)
    around = (wanted[0] < steps).all() and (wanted[-1] >= steps).all()
    got = np.rint(product(x, parts))
    return parts if around and np.array_equal(got, wanted) else None


def product(x: np.ndarray, parts: Parts) -> np.ndarray:
    """`fma(x, large, x * small)` of float32, whose intermediate results are far from underflow."""
    whole = x.astype(np.float64) * np.float64(parts.large)
    rest = (x * parts.small).astype(np.float64)
    total = whole + rest
    back = total - whole
    error = (whole - (total - back)) + (rest - back)
    # Rounded to odd, float64 rounds on to float32 as the exact sum does (Boldo and Melquiond).
    bits = total.view(np.int64)
    inexact = (error != 0) & (bits % 2 == 0)
    bits = bits + np.where(inexact, np.where((error > 0) == (total > 0), 1, -1), 0)
    return bits.view(np.float64).astype(np.float32)
