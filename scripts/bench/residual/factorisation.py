"""Householder QR whose products run through integers: table 6 of the paper.

Every reflection is applied as a whole orthogonal matrix, to what becomes R and to what becomes Q,
by the product under test; errors of a step are therefore in all that follow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from residual.distributions import DISTRIBUTIONS, draw
from residual.rows import Case
from residual.variants import ONE_SCALE, Variants, relative_error

BITS = (8, 4)
SIZE = 256
THRESHOLDS = (0.8, 0.1)

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]


def factorised(matrix: np.ndarray, product: Product) -> tuple[np.ndarray, np.ndarray]:
    """Q and R of a square float32 matrix; R is what lies on and above the diagonal."""
    size = len(matrix)
    q, r = np.eye(size, dtype=np.float32), matrix.copy()
    for column in range(size - 1):
        below = r[column:, column].copy()
        below[0] += np.copysign(np.linalg.norm(below), below[0])
        length = np.linalg.norm(below)
        if length == 0:
            continue
        direction = below / length
        reflection = np.eye(size, dtype=np.float32)
        reflection[column:, column:] -= 2 * np.outer(direction, direction)
        r, q = product(reflection, r), product(q, reflection)
    return q, np.triu(r)


def products(bits: int) -> dict[str, Product]:
    """The forms of the product by name; "float32" is the plain one."""
    forms: dict[str, Product] = {
        "float32": np.matmul,
        "one_scale_direct": lambda a, b: Variants(a, b, bits, ONE_SCALE).direct,
        "direct": lambda a, b: Variants(a, b, bits).direct,
        "one_scale_full": lambda a, b: Variants(a, b, bits, ONE_SCALE).full,
        "full": lambda a, b: Variants(a, b, bits).full,
        "cut_off_direct": lambda a, b: Variants(a, b, bits, ONE_SCALE, cut_off=True).direct,
        "cut_off_full": lambda a, b: Variants(a, b, bits, ONE_SCALE, cut_off=True).full,
    }
    for threshold in THRESHOLDS:
        forms[f"sparse_{threshold}"] = lambda a, b, t=threshold: Variants(a, b, bits).sparse(t)
    return forms


def cases(size: int) -> list[Case]:
    """A row for each distribution and number of bits."""
    return [
        Case("qr", f"{name} {bits} bits {size}", partial(errors_row, name, bits, size))
        for bits in BITS
        for name in DISTRIBUTIONS
    ]


def errors_row(name: str, bits: int, size: int) -> dict[str, Any]:
    """The relative error of Q R for one matrix, by the form of the products."""
    matrix = draw(name, (size, size), 0)
    exact, errors = matrix.astype(np.float64), {}
    for form, product in products(bits).items():
        q, r = factorised(matrix, product)
        errors[form] = relative_error(q.astype(np.float64) @ r, exact)
    return {"distribution": name, "bits": bits, "size": size, "errors": errors}
