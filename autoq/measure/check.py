"""Whether a candidate's outputs are right, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from autoq.templates.layout import put_images, take_images
from autoq.templates.storage import value_dtype
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Operands, Tolerance, Workload

# Multiply-adds that one piece of a reference should hold: large enough to hide Python.
_PIECE_OPERATIONS = 1 << 28


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
    if expected.dtype != np.float32:
        if tolerance.steps == 0:
            return y != expected
        return np.abs(y.astype(np.int64) - expected.astype(np.int64)) > tolerance.steps
    finite = expected[np.isfinite(expected)].astype(np.float64)
    scale = math.sqrt(float(np.mean(finite**2))) if finite.size else 0.0
    bound = tolerance.relative * np.maximum(np.abs(expected), scale)
    with np.errstate(invalid="ignore"):
        # Negated, so that a NaN is wrong.
        return ~((np.abs(y - expected) <= bound) | (y == expected))


def threaded_reference(
    workload: Workload,
    activations: Sequence[np.ndarray],
    operands: Operands,
    threads: int,
) -> Arrays:
    """`Workload.reference`, its `Workload.pieces` shared out among threads.

    numpy's BLAS should itself run on one thread, or the two get in each other's way.
    """
    wanted = min(4 * threads, max(1, workload.operations // _PIECE_OPERATIONS))
    pieces = workload.pieces(wanted) if threads > 1 else []
    if len(pieces) < 2:
        return workload.reference(activations, operands)
    outputs = tuple(np.empty(y.shape, value_dtype(y.dtype)) for y in workload.outputs)

    def compute(piece: tuple[slice, Workload]) -> None:
        images, part = piece
        taken = [
            take_images(array, spec.layout, images)
            for array, spec in zip(activations, workload.inputs, strict=True)
        ]
        found = part.reference(taken, operands)
        for y, spec, values in zip(outputs, workload.outputs, found, strict=True):
            put_images(y, spec.layout, images, values)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(compute, pieces))
    return outputs
