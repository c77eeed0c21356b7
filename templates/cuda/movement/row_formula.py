"""Formulas over the rows of arrays: what is computed of one element, and of all of a row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RowValue:
    """A float32 value that a formula computes, for each element of a row or once a row.

    expression: CUDA with {0}, {1}, ... in place of the values that `arguments` index: the operands
    in order, then earlier values. For a value that reduces rows it is the name of what joins two
    elements of its only argument, "Sum" or "Largest"; or one of BYTE_SUMS. BYTE_SHARE is one too.
    """

    expression: str
    arguments: tuple[int, ...]
    spans: bool
    reduces: bool = False


@dataclass(frozen=True)
class RowFormula:
    """What is computed for one row; the last value is the output.

    source: CUDA functions that the expressions call. zero_points: what is taken from each operand
    when it is read. An integer output is `clamp(rint(value), low, high) + zero_point` with whole
    bounds, one of floats the value itself. Where `rounded`, the last value is an integer within the
    bounds to which ROUNDS was added, which is what the store does otherwise.
    """

    source: str
    values: tuple[RowValue, ...]
    zero_points: tuple[float, ...]
    out_dtype: str
    low: float = 0.0
    high: float = 0.0
    zero_point: float = 0.0
    rounded: bool = False


BYTE_SUMS = ("Total", "Spread")
"""Of an operand of bytes as it lies in memory, exact: Total is the sum of a row of n; Spread, whose
second argument is the Total, is n times the sum of squares less the square of the sum, rounded
once."""
BYTE_SHARE = "Share"
"""Of an operand of unsigned bytes as it lies in memory: each element times 2**-24, which is a half
with that byte, so that a permutation serves two elements and a conversion needs no subtraction."""
ROUNDS = 12582912.0
"""A float of this size, 1.5 * 2**23, has its integer in its last bits; sums round to even."""
