"""Residual-compensated quantisation in numpy, step by step in single precision.

The product a @ b of two float32 matrices is s_a s_b (P + Q / 2 L): s_a holds a scale for each row
of a, s_b one for each column of b, L is the largest integer, P the product of the quantised
matrices, and Q that of each of them with the residual of the other, which has half a step to cover
and therefore 2 L times finer steps of its own. The product of the two residuals is left out. *A
method for accelerating low precision operations by sparse matrix multiplication* keeps of either
quantised matrix only what is large enough to matter, so that Q is two sparse products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEAST_LARGEST = np.float32(2.0**-100)
"""A vector whose values are all below it counts as zeros: its steps would be denormal."""

_EXACT_FLOAT = 1 << 24
"""Up to which float32 has every integer."""


def largest_integer(bits: int) -> int:
    """The largest magnitude of a symmetric integer of so many bits."""
    return 2 ** (bits - 1) - 1


def residual_unit(bits: int) -> np.float32:
    """1 / 2 L: what a step of the residual is of one of the matrix itself."""
    return np.float32(1) / np.float32(2 * largest_integer(bits))


@dataclass(frozen=True)
class Quantised:
    """A matrix as integers, its residual as integers, and the scales of its vectors.

    values, residual: int8 [rows, columns], at most L large; scale: float32, one for each vector,
    broadcastable to the matrix, 0 for a vector of zeros.
    """

    values: np.ndarray
    residual: np.ndarray
    scale: np.ndarray


def quantise(matrix: np.ndarray, bits: int, axis: int | None) -> Quantised:
    """A float32 matrix in integers, with a scale for what lies along `axis`; None for one in all.

    Every step is rounded to float32: `value * (L / largest)` to the nearest integer, ties to even,
    what is left of the value, and that times `2 L * (L / largest)` likewise. The matrix is finite.
    """
    most = np.float32(largest_integer(bits))
    inverse, scale = scales(matrix, bits, axis)
    values = np.rint(matrix * inverse)
    rest = matrix - values * scale
    finer = np.clip(np.rint(rest * (inverse * (2 * most))), -most, most)
    return Quantised(values.astype(np.int8), finer.astype(np.int8), scale)


def scales(matrix: np.ndarray, bits: int, axis: int | None) -> tuple[np.ndarray, np.ndarray]:
    """What `quantise` multiplies values by, and the scale of the integers, 0 for zeros."""
    most = np.float32(largest_integer(bits))
    largest = np.max(np.abs(matrix), axis=axis, keepdims=True).astype(np.float32)
    zero = largest < LEAST_LARGEST
    divisor = np.where(zero, np.float32(1), largest)
    inverse = np.where(zero, np.float32(0), most / divisor)
    return inverse, np.where(zero, np.float32(0), divisor / most)


def cuts(
    sums: np.ndarray, scale: np.ndarray, magnitudes: np.ndarray, threshold: float
) -> np.ndarray:
    """For each row of the left matrix the magnitude, in its steps, above which a value matters.

    The rule is `|a_ik| > 2 threshold mean_j |d_ij| / (k mean |b|)`. The row's scale, the number of
    columns and k cancel out of it: `2 threshold sum_j s_j |p_ij| / sum_j s_j sum_k |b'_kj|`.
    sums: P, int32 [m, n]; scale: of the right matrix, float32 [n]; magnitudes: its sums over k of
    |b'_kj|, [n]. For the columns of the right matrix give P transposed and what the left one has.
    Returns float64 [m], NaN where 0 is divided by 0 or infinity multiplies it.
    """
    scale = scale.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        weighed = np.abs(sums.astype(np.float64)) @ scale / (magnitudes.astype(np.float64) @ scale)
        return 2.0 * float(threshold) * weighed


def integer_product(left: np.ndarray, right: np.ndarray, bits: int) -> np.ndarray:
    """The product of two such int8 matrices in int32, in pieces of k that float32 sums exactly."""
    longest = _EXACT_FLOAT // largest_integer(bits) ** 2
    total = np.zeros((left.shape[0], right.shape[1]), np.int32)
    for start in range(0, left.shape[1], longest):
        piece = slice(start, start + longest)
        part = left[:, piece].astype(np.float32) @ right[piece].astype(np.float32)
        total += part.astype(np.int32)
    return total


def kept(values: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """The integers whose magnitude is above the cut, 0 in place of others; NaN keeps nothing."""
    return np.where(np.abs(values.astype(np.int16)) > cut, values, np.int8(0))


def compensated(
    sums: np.ndarray,
    correction: np.ndarray | None,
    rows: np.ndarray,
    columns: np.ndarray,
    bits: int,
) -> np.ndarray:
    """The product in float32 of P, of Q if there is one, and of the scales of rows and columns.

    sums, correction: int32 [m, n]; rows: float32 [m, 1]; columns: float32 [1, n]. The columns'
    scale is multiplied first, as in an `Epilogue`, and every step is rounded.
    """
    value = sums.astype(np.float32)
    if correction is not None:
        value = value + correction.astype(np.float32) * residual_unit(bits)
    return value * columns * rows
