"""Operands that decide which short form of the epilogue a 2:4 product may take."""

from __future__ import annotations

from typing import Any

import numpy as np

from autoq.templates.epilogue import SCALAR_NAMES
from autoq.templates.operators.gemm import Gemm


def case_of_form(
    workload: Gemm, bounds: tuple[int, int, int], scale: float, bias: int
) -> tuple[Any, dict[str, Any]]:
    """A random case; bounds: low, high and the zero point; bias: the first column's, largest."""
    values, constants = workload.random_case(np.random.default_rng(2))
    rng = np.random.default_rng(3)
    for name, value in zip(("low", "high", "zero_point"), bounds, strict=True):
        constants["scalars"][SCALAR_NAMES.index(name)] = value
    constants["scale"][:] = scale * rng.uniform(1, 2, workload.n)
    constants["bias"][:] = rng.integers(-500_000, 500_000, workload.n)
    constants["bias"][:4] = [bias, -bias, bias // 3, -bias // 3]
    return values, constants
