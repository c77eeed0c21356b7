"""How important single weights are: scores [k, n], float64 and no less than 0.

A vector or block is as important as its weights are on average.
"""

from __future__ import annotations

import numpy as np

from autoq.errors import InputError


def magnitude(weights: np.ndarray) -> np.ndarray:
    """Scores of weights [k, n] by their size."""
    return _finite(np.abs(weights.astype(np.float64)), "weights")


def taylor(weights: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Scores of weights [k, n] by the loss that the removal of each incurs, to first order.

    (gradient * weight) squared, by Molchanov et al., "Importance Estimation for Neural Network
    Pruning". gradients: of the loss, [k, n], or [samples, k, n] whose scores are averaged.
    Raises InputError for gradients of another shape.
    """
    if gradients.shape != weights.shape and gradients.shape[1:] != weights.shape:
        raise InputError(
            f"gradients are {list(gradients.shape)}; weights of {list(weights.shape)} take that "
            "shape, or one array of it a sample"
        )
    if gradients.shape[:1] == (0,) and gradients.ndim > weights.ndim:
        raise InputError("gradients of no sample; give one or more")
    products = np.square(gradients.astype(np.float64) * weights)
    scores = products if gradients.ndim == weights.ndim else products.mean(axis=0)
    return _finite(scores, "gradients")


def by_activations(weights: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Scores of weights [k, n] by their size times the norm of what each row multiplies.

    norms: [k], the Euclidean norm of each input over calibration samples, as in "A Simple and
    Effective Pruning Approach for Large Language Models" (Wanda). Raises InputError for another
    count of them.
    """
    if norms.shape != weights.shape[:1]:
        raise InputError(
            f"norms of activations are {list(norms.shape)}; weights of {list(weights.shape)} "
            f"take {weights.shape[0]}, one a row"
        )
    return _finite(magnitude(weights) * norms.astype(np.float64)[:, None], "norms of activations")


def _finite(scores: np.ndarray, what: str) -> np.ndarray:
    if not np.isfinite(scores).all():
        raise InputError(f"{what} hold NaN or infinite values; give finite ones")
    return scores
