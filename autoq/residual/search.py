"""The cheapest setting of a product that keeps a tolerance, checked on the product itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.residual.candidates import Candidate
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
    candidates: Iterable[Candidate],
    tolerance: float,
    compute: Callable[[Setting], Any],
    rng: np.random.Generator,
) -> Found:
    """The first candidate with an error bound in the tolerance; they come by their cost, full last.

    a [m, k] and b [k, n] are float32; compute gives the product, an array of numpy or a tensor.
    Candidates are chosen by a block of the product, and kept where rows of it, drawn afresh, agree.
    Raises InputError, with what was reached, where none is within the tolerance.
    """
    best, bits = math.inf, 8
    for candidate in candidates:
        bits = candidate.setting.bits
        y = compute(candidate.setting)
        error = estimated_error(y if isinstance(y, np.ndarray) else y.numpy(), a, b, rng)
        if error.bound <= tolerance:
            return Found(candidate, y, error)
        best = min(best, error.bound)
    more = "allow that much" if bits == 8 else "allow that much, or take 8 bits"
    raise InputError(
        f"tolerance {tolerance:g}: {bits} bits with the full correction reach {best:.2g}; {more}"
    )
