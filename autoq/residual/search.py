"""The cheapest setting of a product that keeps a tolerance, checked on the product itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.residual.candidates import Block, Candidate, in_order_of_cost
from autoq.residual.sampling import ErrorEstimate, estimated_error
from autoq.residual.setting import Setting


@dataclass(frozen=True)
class Found:
    """A setting that keeps the tolerance, the product under it, and its error."""

    candidate: Candidate
    y: Any
    error: ErrorEstimate


def cheapest_within(
    a: np.ndarray,
    b: np.ndarray,
    sparse: Setting,
    tolerance: float,
    compute: Callable[[Setting], Any],
    rng: np.random.Generator,
) -> Found:
    """The cheapest setting of bits and crossover of `sparse` with an error bound in the tolerance.

    a [m, k] and b [k, n] are float32; compute gives the product, an array of numpy or a tensor.
    Settings are chosen by a block of the product, and kept where rows of it, drawn afresh, agree.
    Raises InputError, with what was reached, where none is within the tolerance.
    """
    best = math.inf
    for candidate in in_order_of_cost(Block(a, b, sparse.bits, rng), sparse, tolerance):
        y = compute(candidate.setting)
        error = estimated_error(y if isinstance(y, np.ndarray) else y.numpy(), a, b, rng)
        if error.bound <= tolerance:
            return Found(candidate, y, error)
        best = min(best, error.bound)
    more = "allow that much" if sparse.bits == 8 else "allow that much, or take 8 bits"
    raise InputError(
        f"tolerance {tolerance:g}: {sparse.bits} bits with the full correction reach {best:.2g}; "
        f"{more}"
    )
