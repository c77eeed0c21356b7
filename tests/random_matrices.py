"""Random matrices of the distributions over which residual quantisation is judged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "uniform": lambda rng, shape: rng.random(shape, np.float32),
    "normal": lambda rng, shape: rng.normal(10, 3, shape).astype(np.float32),
    "chi-square": lambda rng, shape: rng.chisquare(1, shape).astype(np.float32),
    "exponential": lambda rng, shape: rng.exponential(4, shape).astype(np.float32),
    "Poisson": lambda rng, shape: rng.poisson(10, shape).astype(np.float32),
}


def relative(y: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """The Frobenius norm of y - a b as a share of that of a b."""
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return float(np.linalg.norm(y - exact) / np.linalg.norm(exact))
