"""Compensation of a direct product by a few directions of what quantising loses.

That is a' r_b + r_a b', of the quantised matrices and their residuals. Its first part is close to
(a p)(p' r_b), where the columns of p are the directions along k in which the rows of a are largest,
and the second to (r_a q)(q' b), with those of the columns of b; the product of the residuals stays
lost. Residuals have no such directions of their own, but matrices that do not sum to zero have one,
their mean, and one is then enough. The directions are found by random projections (Halko,
Martinsson and Tropp, *Finding structure with randomness*), with one step of power iteration.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.oracle.residual_quantisation import quantise

_OVERSAMPLED = 4
"""Projections more than directions, as is usual."""


def low_rank_terms(
    a: np.ndarray, b: np.ndarray, bits: int, rank: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """float32 [m, 2 rank] and [2 rank, n] whose product is added to the direct one.

    a [m, k] and b [k, n] are float32. Both have fewer columns and rows where no more directions
    are. They cost 2 (m + n) k (6 rank + 16) operations in float32 or so, and their product 4 m n
    rank, on the host.
    """
    p, q = _directions(a, rank, rng), _directions(b.T, rank, rng)
    left = np.concatenate([a @ p, _residual(a, bits, 1) @ q], axis=1)
    right = np.concatenate([p.T @ _residual(b, bits, 0), q.T @ b])
    return left, right


def _residual(matrix: np.ndarray, bits: int, axis: int) -> np.ndarray:
    """What is left of a matrix that is quantised with a scale for what lies along `axis`."""
    quantised = quantise(matrix, bits, axis)
    return matrix - quantised.values * quantised.scale


def _directions(matrix: np.ndarray, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Orthonormal float32 [k, rank]: the directions in which the rows [x, k] are largest."""
    some = min(rank + _OVERSAMPLED, *matrix.shape)
    spread, _ = np.linalg.qr(matrix.T @ rng.standard_normal((len(matrix), some), np.float32))
    spread, _ = np.linalg.qr(matrix.T @ (matrix @ spread))
    _, _, rotation = np.linalg.svd(matrix @ spread, full_matrices=False)
    return spread @ rotation[:rank].T
