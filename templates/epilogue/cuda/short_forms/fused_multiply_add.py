"""The fused multiply-add of float32 in numpy, rounded once."""

from __future__ import annotations

import numpy as np


def fused_multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c of finite float32 arrays that broadcast, ties to even, float32.

    A product of two float32 is exact in float64. The sum is rounded to odd there, which makes the
    second rounding, to float32, that of the exact value (Boldo and Melquiond, 2008).
    """
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    addend = np.asarray(c, np.float64)
    total = np.atleast_1d(product + addend)
    part = total - product
    error = (product - (total - part)) + (addend - part)
    to_odd = (error != 0) & (total.view(np.int64) & 1 == 0)
    toward = np.where(error > 0, np.inf, -np.inf)
    return np.where(to_odd, np.nextafter(total, toward), total).astype(np.float32)
