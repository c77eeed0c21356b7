"""The matrices of the residual paper's experiments, drawn from a seed."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

Shape = tuple[int, int]

DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, Shape], np.ndarray]] = {
    "uniform(0, 1)": lambda rng, shape: rng.random(shape),
    "normal(10, 3)": lambda rng, shape: rng.normal(10.0, 3.0, shape),
    "chi-square(1)": lambda rng, shape: rng.chisquare(1.0, shape),
    "exponential(4)": lambda rng, shape: rng.exponential(4.0, shape),
    "Poisson(10)": lambda rng, shape: rng.poisson(10.0, shape),
}
"""Whether 4 is the mean or the rate of the exponential one changes nothing that is relative."""


def draw(name: str, shape: Shape, seed: int) -> np.ndarray:
    """A float32 matrix of the distribution; other seeds and distributions are independent."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
    return DISTRIBUTIONS[name](rng, shape).astype(np.float32)


def pair(name: str, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Two square matrices to multiply."""
    return draw(name, (size, size), 0), draw(name, (size, size), 1)


def masked(rng: np.random.Generator, shape: Shape, density: float, signs: np.ndarray) -> np.ndarray:
    """A float32 matrix of which a random share of `density` matters.

    Magnitudes that matter are between 0.95 and 1, the others between 0.3 and 0.6. signs: float32,
    broadcastable to the matrix; those of both factors go by k, so that sums do not cancel.
    """
    matrix = rng.random(shape, np.float32)
    matrix *= np.float32(0.3)
    matrix += np.float32(0.3)
    matters = rng.random(shape, np.float32) < density
    matrix[matters] = 0.95 + 0.05 * rng.random(np.count_nonzero(matters), np.float32)
    matrix *= signs
    return matrix


def masked_threshold(density: float) -> float:
    """The threshold that keeps of `masked` matrices what the mask chose.

    The rule's cut is twice the threshold times the mean magnitude, and lies halfway between the
    largest of those that do not matter and the least of those that do.
    """
    mean = (1 - density) * 0.45 + density * 0.975
    return 0.5 * (0.6 + 0.95) / (2 * mean)


def masked_pair(size: int, density: float) -> tuple[np.ndarray, np.ndarray]:
    """Two square matrices, of each of which the share of `density` matters."""
    rng = np.random.default_rng(size)
    signs = rng.choice(np.array([-1, 1], np.float32), size)
    a = masked(rng, (size, size), density, signs)
    return a, masked(rng, (size, size), density, signs[:, None])
