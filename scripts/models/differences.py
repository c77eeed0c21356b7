"""How far outputs lie from what is expected: in steps, in the mean, and relative to the largest."""

from __future__ import annotations

import numpy as np

DYNAMIC_LEVELS = 255
"""Levels of a tensor that is quantised at run time."""


def steps_off(found: np.ndarray, wanted: np.ndarray, floats: bool) -> float:
    """The largest difference in steps; one of floats is a 255th of their range and 0."""
    exact = wanted.astype(np.float64)
    error = np.abs(found.astype(np.float64) - exact).max(initial=0)
    span = exact.max(initial=0) - exact.min(initial=0)
    return float(error * DYNAMIC_LEVELS / (span or 1.0) if floats else error)


def mean_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The mean difference over the root mean square of what is expected."""
    exact = wanted.astype(np.float64)
    spread = float(np.sqrt((exact**2).mean()))
    return float(np.abs(found - exact).mean()) / max(spread, 1e-30)


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference over the largest expected size."""
    exact = wanted.astype(np.float64)
    if found.shape != wanted.shape or not np.isfinite(found.astype(np.float64)).all():
        return float("inf")
    return float(np.abs(found - exact).max(initial=0) / max(np.abs(exact).max(initial=0), 1e-30))
