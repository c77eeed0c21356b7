"""Whether a candidate's output is right, element by element."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from autoq.templates.base import Operands
from autoq.templates.layout import from_nhwc
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.reference import activations_in_nhwc, reference
from autoq.templates.storage import value_dtype
from autoq.templates.target import Target
from autoq.templates.workload import Workload

FLOAT_TOLERANCE = 1e-4
"""Largest relative error of a float32 element; relative to the output's root mean square for
elements below that, since sums that cancel lose their digits."""

# Multiply-adds that one piece of a reference should hold: large enough to hide Python.
_PIECE_OPERATIONS = 1 << 28


def complaint(
    y: np.ndarray, expected: np.ndarray, workload: Workload, target: Target
) -> str | None:
    """What is wrong with an output, in one line; None when every element is right.

    Integers must be equal; on the CPU those with a fused residual may be one step off, because
    LLVM may contract the epilogue's multiplication and addition. Float32 follows FLOAT_TOLERANCE.
    """
    wrong = _wrong(y, expected, _allowed_steps(workload, target))
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), y.shape))
    return (
        f"{count} of {y.size} elements wrong; first at {list(first)}: "
        f"{y[first]} instead of {expected[first]}"
    )


def _allowed_steps(workload: Workload, target: Target) -> int:
    epilogue = getattr(workload, "epilogue", None)
    if target.kind != "cpu" or epilogue is None or epilogue.residual_dtype is None:
        return 0
    return 0 if epilogue.out_dtype == "int32" else 1


def _wrong(y: np.ndarray, expected: np.ndarray, steps: int) -> np.ndarray:
    if expected.dtype != np.float32:
        if steps == 0:
            return y != expected
        return np.abs(y.astype(np.int64) - expected.astype(np.int64)) > steps
    finite = expected[np.isfinite(expected)].astype(np.float64)
    scale = math.sqrt(float(np.mean(finite**2))) if finite.size else 0.0
    bound = FLOAT_TOLERANCE * np.maximum(np.abs(expected), scale)
    with np.errstate(invalid="ignore"):
        # Negated, so that a NaN is wrong.
        return ~((np.abs(y - expected) <= bound) | (y == expected))


def threaded_reference(
    workload: Workload,
    activations: Sequence[np.ndarray],
    operands: Operands,
    threads: int,
) -> np.ndarray:
    """`reference`, its images (or rows of a Gemm) shared out among threads.

    numpy's BLAS should itself run on one thread, or the two get in each other's way.
    """
    if isinstance(workload, Conv2d) and workload != workload.in_nhwc:
        images = activations_in_nhwc(workload, activations)
        y = threaded_reference(workload.in_nhwc, images, operands, threads)
        return from_nhwc(y, workload.out_layout, workload.epilogue.out_dtype)
    pieces = list(_pieces(workload, threads))
    if threads == 1 or len(pieces) == 1 or not isinstance(workload, Conv2d | Gemm):
        return reference(workload, activations, operands)
    y = np.empty(workload.y_shape, value_dtype(workload.epilogue.out_dtype))

    def compute(rows: slice) -> None:
        size = rows.stop - rows.start
        part = dataclasses.replace(
            workload, **({"m": size} if isinstance(workload, Gemm) else {"n": size})
        )
        y[rows] = reference(part, [array[rows] for array in activations], operands)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(compute, pieces))
    return y


def _pieces(workload: Workload, threads: int) -> Iterator[slice]:
    """Slices of the leading axis, a few for each thread."""
    rows = workload.y_shape[0]
    wanted = min(4 * threads, max(1, workload.operations // _PIECE_OPERATIONS))
    step = -(-rows // wanted)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
