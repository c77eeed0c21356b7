"""Compensation of the channels along k that lose most: more columns of a and rows of b.

The direct product of [a | a'_S / f | g r_T] and [b ; f r_S ; b'_T / g] is that of a and b plus what
quantising b loses in the channels S and what quantising a loses in T: a' and b' are the quantised
matrices, r what is left of them. So one ordinary product, k + count long, computes it, with the
scales that a and b have, since what is appended is smaller than the largest value of its row or
column. It is rounded to steps of these scales too: of a'_S, which has v steps in the mean square, a
share of f / v sqrt(12) is lost, and of r_S one of 1 / f, which f = sqrt(v sqrt(12)) makes equal. Of
what a channel loses about a tenth is left at 8 bits where values are spread evenly up to the
largest one, a quarter where they are mostly small, a third at 4 bits: more than the 1 / 2 L of a
residual with steps of its own.
"""

from __future__ import annotations

import math

import numpy as np

from autoq.templates.oracle.residual_quantisation import largest_integer, scales

_Scales = tuple[np.ndarray, np.ndarray]
"""What rows or columns are multiplied by, and the steps of their integers."""


def with_channels(
    a: np.ndarray, b: np.ndarray, bits: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """float32 a [m, k + count] and b [k + count, n] whose direct product is compensated.

    Of the 2 k residual channels, those of a and those of b, the `count` are appended that should
    lose most: by the norm of the one matrix along k times that of the steps of the other. All of
    them at most.
    """
    rows, columns = scales(a, bits, axis=1), scales(b, bits, axis=0)
    of_b = np.einsum("ik,ik->k", a, a, dtype=np.float64) * _square(columns[1])
    of_a = np.einsum("kj,kj->k", b, b, dtype=np.float64) * _square(rows[1])
    k = len(b)
    worst = np.argsort(-np.concatenate([of_b, of_a]), kind="stable")[:count]
    first, second = worst[worst < k], worst[worst >= k] - k
    large_a, small_b = _balanced(a[:, first], rows, b[first], columns, bits)
    large_b, small_a = _balanced(b[second], columns, a[:, second], rows, bits)
    return (
        np.concatenate([a, large_a, small_a], axis=1),
        np.concatenate([b, small_b, large_b]),
    )


def _square(scale: np.ndarray) -> float:
    return float(np.square(scale, dtype=np.float64).sum())


def _balanced(
    large: np.ndarray, own: _Scales, other: np.ndarray, other_scales: _Scales, bits: int
) -> tuple[np.ndarray, np.ndarray]:
    """Channels of a matrix, quantised, and of the other one's residual, in scales alike."""
    integers = np.rint(large * own[0])
    mean_square = float(np.square(integers, dtype=np.float64).mean()) if integers.size else 0.0
    factor = math.sqrt(math.sqrt(12 * mean_square))
    factor = np.float32(min(max(factor, 1.0), 2.0 * largest_integer(bits)))
    rest = other - np.rint(other * other_scales[0]) * other_scales[1]
    return integers * own[1] / factor, rest * factor
