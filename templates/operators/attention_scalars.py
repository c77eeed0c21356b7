"""The scalars of attention: what a model fixes of its steps, in their order in memory."""

from __future__ import annotations

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.element import INTEGER_RANGE

ATTENTION_SCALARS = (
    "scale",
    "scores_low",
    "scores_high",
    "rescale",
    "rescaled_low",
    "rescaled_high",
    "scores_step",
    "masked_low",
    "masked_high",
    "masked_step",
    "shares_most",
    "shares_step",
    "out_scale",
    "low",
    "high",
    "zero_point",
)
"""Order of the `scalars` operand, float32; see `Attention`. Floats have the first one alone."""


def attention_scalars(**values: float) -> np.ndarray:
    """The `scalars` operand, float32, from values named as in `ATTENTION_SCALARS`.

    Missing ones take the neutral value: steps and scales 1, zero points 0, bounds those of int8,
    and shares up to 255.
    """
    neutral = dict.fromkeys(ATTENTION_SCALARS, 1.0)
    least, most = (float(end) for end in INTEGER_RANGE["int8"])
    for name in ("scores", "rescaled", "masked"):
        neutral.update({f"{name}_low": least, f"{name}_high": most})
    neutral.update(low=least, high=most, zero_point=0.0, shares_most=255.0)
    unknown = set(values) - set(ATTENTION_SCALARS)
    if unknown:
        raise InputError(f"unknown scalars {sorted(unknown)}; known are {ATTENTION_SCALARS}")
    neutral.update(values)
    return np.array([neutral[name] for name in ATTENTION_SCALARS], np.float32)
