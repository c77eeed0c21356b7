"""Which types of values sparse products multiply, and what random ones of them are like."""

from __future__ import annotations

import math

from autoq.errors import InputError
from autoq.templates.arrays.element import element
from autoq.templates.epilogue import FLOAT_OUTPUTS

INTEGERS = ("int4", "uint4", "int8", "uint8", "int16", "uint16")
"""Types of values and of the dense side, in any pair."""

FLOATS = ("float16", "bfloat16")
"""Types of both sides together."""

ZERO_POINTS = {"int4": -3, "uint4": 6, "int8": -11, "uint8": 119, "int16": -211, "uint16": 30119}
"""Zero points of the dense side in random cases."""


def require_factors(in_dtype: str, weight_dtype: str) -> None:
    """Raise InputError unless there are products of these types."""
    if in_dtype == weight_dtype in FLOATS:
        return
    for name, dtype in (("in_dtype", in_dtype), ("weight_dtype", weight_dtype)):
        if dtype not in INTEGERS:
            raise InputError(
                f"{name} {dtype!r}: one of {', '.join(INTEGERS)}, or {' or '.join(FLOATS)} for "
                "both factors"
            )


def require_floats(out_dtype: str, residual_dtype: str) -> None:
    """Raise InputError unless a product of floats may end in these types."""
    for name, dtype in (("out_dtype", out_dtype), ("residual_dtype", residual_dtype)):
        if dtype not in FLOAT_OUTPUTS:
            raise InputError(
                f"{name} {dtype!r} of a product of floats: one of {', '.join(FLOAT_OUTPUTS)}"
            )


def value_range(dtype: str) -> tuple[float, float]:
    """Least and most of a type."""
    return element(dtype).range or (-math.inf, math.inf)


def deviation(dtype: str) -> float:
    """Standard deviation of uniform integers, or of normal floats."""
    if dtype in FLOATS:
        return 1.0
    least, most = value_range(dtype)
    return (most - least) / math.sqrt(12)
