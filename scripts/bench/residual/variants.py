"""The forms of one product through integers, step by step in numpy: their errors and densities.

`ResidualGemm.reference` is the same with a scale for each row and column. Here a matrix may also
have one scale, products of integers are kept between thresholds, and values may be cut off rather
than rounded, as the residual paper's formulas do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autoq.templates.oracle.residual_quantisation import (
    Quantised,
    compensated,
    cuts,
    integer_product,
    kept,
    largest_integer,
    quantise,
)

BY_VECTOR: tuple[int | None, int | None] = (1, 0)
ONE_SCALE: tuple[int | None, int | None] = (None, None)
"""The axes of a scale of the left and of the right matrix."""


def truncated(matrix: np.ndarray, bits: int, axis: int | None) -> Quantised:
    """Like `quantise`, but what is behind the point is cut off, of the residual too.

    The residual has a whole step to cover then, so that its steps are L times as fine, not 2 L.
    """
    most = np.float32(largest_integer(bits))
    largest = np.max(np.abs(matrix), axis=axis, keepdims=True)
    scale = largest / most
    values = np.trunc(matrix * (most / largest))
    rest = (matrix - values * scale) * (most / largest) * most
    finer = np.clip(np.trunc(rest), -most, most)
    return Quantised(values.astype(np.int8), finer.astype(np.int8), scale)


def relative_error(y: np.ndarray, exact: np.ndarray) -> float:
    """In the Frobenius norm."""
    return float(np.linalg.norm(y - exact) / np.linalg.norm(exact))


@dataclass(frozen=True)
class Point:
    """What the sparse form makes of a threshold: its error, and the shares that are kept."""

    error: float
    density_a: float
    density_b: float


class Variants:
    """The product of two float32 matrices in its forms.

    scales: `BY_VECTOR` or `ONE_SCALE`; cut_off: values are cut off, not rounded.
    """

    def __init__(
        self,
        a: np.ndarray,
        b: np.ndarray,
        bits: int,
        scales: tuple[int | None, int | None] = BY_VECTOR,
        cut_off: bool = False,
    ) -> None:
        self.bits = bits
        self._unit = 2 if cut_off else 1
        how = truncated if cut_off else quantise
        self.left, self.right = how(a, bits, scales[0]), how(b, bits, scales[1])
        self._rows = np.broadcast_to(self.left.scale, (a.shape[0], 1))
        self._columns = np.broadcast_to(self.right.scale, (1, b.shape[1]))

    def _product(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return integer_product(left, right, self.bits)

    def _corrected(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        correction = self._product(a, self.right.residual) + self._product(self.left.residual, b)
        return self._result(correction * self._unit)

    def _result(self, correction: np.ndarray | None) -> np.ndarray:
        return compensated(self._sums, correction, self._rows, self._columns, self.bits)

    @cached_property
    def _sums(self) -> np.ndarray:
        return self._product(self.left.values, self.right.values)

    @property
    def direct(self) -> np.ndarray:
        return self._result(None)

    @property
    def full(self) -> np.ndarray:
        return self._corrected(self.left.values, self.right.values)

    def chosen(self, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """Of the quantised matrices what is above its row's and its column's cut."""
        a, b = self.left.values, self.right.values
        of_a = np.abs(a.astype(np.int32)).sum(axis=1)
        of_b = np.abs(b.astype(np.int32)).sum(axis=0)
        rows = cuts(self._sums, self._columns[0], of_b, threshold)
        columns = cuts(self._sums.T, self._rows[:, 0], of_a, threshold)
        return kept(a, rows[:, None]), kept(b, columns[None, :])

    def sparse(self, threshold: float) -> np.ndarray:
        return self._corrected(*self.chosen(threshold))

    def points(self, thresholds: Sequence[float], exact: np.ndarray) -> list[Point]:
        """The sparse form at each threshold, against the exact product."""
        found = []
        for threshold in thresholds:
            a, b = self.chosen(threshold)
            error = relative_error(self._corrected(a, b), exact)
            shares = [np.count_nonzero(side) / side.size for side in (a, b)]
            found.append(Point(error, *shares))
        return found
