"""Whether a candidate's outputs are right, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from ml_dtypes import finfo

from autoq.templates.element import element
from autoq.templates.target import Target
from autoq.templates.workload import Tolerance, Workload


def complaint(
    y: np.ndarray, expected: np.ndarray, workload: Workload, target: Target
) -> str | None:
    """What is wrong with an output, in one line; None when every element is right.

    Elements may be as far off as `Workload.tolerance` says.
    """
    wrong = _wrong(y, expected, workload.tolerance(target))
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), y.shape))
    return (
        f"{count} of {y.size} elements wrong; first at {list(first)}: "
        f"{y[first]} instead of {expected[first]}"
    )


def complaints(
    outputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    workload: Workload,
    target: Target,
) -> str | None:
    """`complaint` of the first output with a wrong element, by its name where there are several."""
    for y, right, spec in zip(outputs, expected, workload.outputs, strict=True):
        found = complaint(y, right, workload, target)
        if found is not None:
            return found if len(expected) == 1 else f"{spec.name}: {found}"
    return None


def _wrong(y: np.ndarray, expected: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    if not element(str(expected.dtype)).floating:
        differs = y != expected
        if tolerance.steps == 0 or not differs.any():
            return differs
        return np.abs(y.astype(np.int64) - expected.astype(np.int64)) > tolerance.steps
    spacing = _spacing(expected)
    y, expected = y.astype(np.float32), expected.astype(np.float32)
    finite = expected[np.isfinite(expected)].astype(np.float64)
    scale = math.sqrt(float(np.mean(finite**2))) if finite.size else 0.0
    sizes = np.maximum(np.abs(expected), scale)
    if tolerance.rows:
        rows = np.where(np.isfinite(expected), expected, 0)
        sizes = np.maximum(sizes, np.sqrt(np.mean(rows**2, axis=-1, keepdims=True)))
    bound = tolerance.relative * sizes + spacing
    with np.errstate(invalid="ignore"):
        # Negated, so that a NaN is wrong.
        return ~((np.abs(y - expected) <= bound) | (y == expected))


def _spacing(expected: np.ndarray) -> np.ndarray | float:
    """How far two roundings of nearly the same number may lie apart; nothing for float32.

    At most a unit in the last place of a narrower float, which no tolerance of sums includes.
    """
    if expected.dtype == np.float32:
        return 0.0
    limits = finfo(expected.dtype)
    size = np.abs(expected.astype(np.float32))
    return np.maximum(size * float(limits.eps), float(limits.smallest_subnormal))
