"""The relative error of a product from some of its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

SAMPLED_ROWS = 64
"""Rows whose products are computed in double precision."""

DEVIATIONS = 3.0
"""Standard errors between an estimate and its bound."""

# Columns of b that are widened to double precision at once.
_COLUMNS = 1024


@dataclass(frozen=True)
class ErrorEstimate:
    """A relative error in the Frobenius norm: `value`, and `bound`, `DEVIATIONS` above it."""

    value: float
    bound: float


def estimated_error(
    y: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    rng: np.random.Generator,
) -> ErrorEstimate:
    """||y - a b|| / ||a b|| of float32 y [m, n], a [m, k] and b [k, n].

    Half of the sampled rows are those where a is largest, which few rows may dominate; the others
    are drawn among the rest, and count for all of it. The squared error is the quotient of two such
    sums, and its variance that of a quotient in the drawn stratum, to first order. Where all rows
    are sampled, the bound is the value. 0 for a product of zeros without error.
    """
    m = len(a)
    certain = np.argsort(-np.einsum("ij,ij->i", a, a, dtype=np.float64), kind="stable")
    certain, rest = certain[: SAMPLED_ROWS // 2], certain[SAMPLED_ROWS // 2 :]
    drawn = rng.permutation(rest)[: SAMPLED_ROWS - len(certain)]
    rows = np.concatenate([certain, drawn])
    errors, norms = _squares(y[rows], a[rows], b)
    weight = len(rest) / max(len(drawn), 1)
    weights = np.concatenate([np.ones(len(certain)), np.full(len(drawn), weight)])
    error, norm = float(weights @ errors), float(weights @ norms)
    if norm == 0:
        value = 0.0 if error == 0 else math.inf
        return ErrorEstimate(value, value)
    quotient = error / norm
    if len(rows) == m or len(drawn) < 2:
        return ErrorEstimate(math.sqrt(quotient), math.sqrt(quotient))
    deviations = (errors - quotient * norms)[len(certain) :]
    variance = len(rest) * (len(rest) - len(drawn)) * deviations.var(ddof=1) / len(drawn)
    above = quotient + DEVIATIONS * math.sqrt(variance) / norm
    return ErrorEstimate(math.sqrt(quotient), math.sqrt(above))


def _squares(y: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each row the squared norms of the error and of the exact product, in double precision."""
    wide = a.astype(np.float64)
    errors, norms = np.zeros(len(a)), np.zeros(len(a))
    for start in range(0, b.shape[1], _COLUMNS):
        block = slice(start, start + _COLUMNS)
        exact = wide @ b[:, block].astype(np.float64)
        norms += np.square(exact).sum(axis=1)
        errors += np.square(y[:, block] - exact).sum(axis=1)
    return errors, norms
