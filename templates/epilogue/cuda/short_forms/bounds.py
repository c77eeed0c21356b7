"""Whether a layer's operands prove that its epilogue stays within small integers.

A float of magnitude below 2**22 rounds to an integer, ties to even, by adding 1.5 * 2**23, and
the bits of the sum are then the integer plus a constant. Weights, bias and scale bound every
value that an activation can lead to; quantised networks stay far below.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.epilogue import SCALAR_NAMES, Epilogue
from autoq.templates.epilogue.cuda.short_forms.words import BOUNDED, IS_BOUNDED, words_of

MAGIC_BITS = 0x4B400000
"""Bits of the float32 1.5 * 2**23."""

_LARGEST = float(1 << 22) - 8.0
_LARGEST_BOUND = float(1 << 20)


def limits(
    epilogue: Epilogue,
    in_dtype: str,
    weight: np.ndarray,
    bias: np.ndarray,
    scale: np.ndarray,
    scalars: np.ndarray,
) -> np.ndarray:
    """The numbers that `Form.BOUNDED` reads, the words of one `short_form.BOUNDED`.

    weight: int8 [k, ...]; bias: int32 [..., k]; scale: float32 [k]; scalars: float32 [8]. The
    form is IS_BOUNDED where the short form is exact; else all is 0.
    """
    s = {name: float(v) for name, v in zip(SCALAR_NAMES, scalars, strict=True)}
    out = np.zeros(1, BOUNDED)
    if not (_bounds_are_exact(epilogue, s) and _values_are_small(
        epilogue, s, largest_total(in_dtype, weight, bias) * np.abs(scale.astype(np.float64))
    )):  # fmt: skip
        return words_of(out)
    out["form"] = IS_BOUNDED
    if epilogue.requantize_before_add:
        low, high = int(s["accumulator_low"]), int(s["accumulator_high"])
        out["accumulator_offset"] = -(MAGIC_BITS + low)
        out["accumulator_span"] = high - low
        out["accumulator_origin"] = low * 2.0**-22
        out["accumulator_scale"] = s["accumulator_scale"] * 2.0**22
    out["residual_scale"] = s["residual_scale"]
    out["output_offset"] = int(s["zero_point"]) - MAGIC_BITS
    out["least_output"] = int(s["low"]) + int(s["zero_point"])
    return words_of(out)


def largest_total(in_dtype: str, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Largest magnitude of accumulator plus bias of each channel, float64 [k]."""
    rows = weight.reshape(weight.shape[0], -1)
    positive = np.maximum(rows, 0).sum(axis=1, dtype=np.int64)
    negative = np.minimum(rows, 0).sum(axis=1, dtype=np.int64)
    least, most = INTEGER_RANGE[in_dtype]
    table = bias.reshape(-1, bias.shape[-1]).astype(np.int64)
    high = most * positive + least * negative + table.max(axis=0)
    low = least * positive + most * negative + table.min(axis=0)
    return np.maximum(np.abs(low), np.abs(high)).astype(np.float64)


def _bounds_are_exact(epilogue: Epilogue, s: dict[str, float]) -> bool:
    """Clamp bounds and zero points are small integers; the upper bound is the type's own."""
    names = ["low", "high", "zero_point"]
    if epilogue.requantize_before_add:
        names += ["accumulator_low", "accumulator_high"]
    if epilogue.residual_dtype is not None:
        names.append("residual_zero_point")
    if not all(abs(s[name]) <= _LARGEST_BOUND and s[name].is_integer() for name in names):
        return False
    least, most = INTEGER_RANGE[epilogue.out_dtype]
    if epilogue.requantize_before_add and s["accumulator_low"] > s["accumulator_high"]:
        return False
    return least <= s["low"] + s["zero_point"] <= most == s["high"] + s["zero_point"]


def _values_are_small(epilogue: Epilogue, s: dict[str, float], scaled: np.ndarray) -> bool:
    """Nothing that is rounded exceeds 2**22; scaled: the scaled totals, float64 [k]."""
    if not np.all(scaled <= _LARGEST):
        return False
    value = float(scaled.max())
    if epilogue.requantize_before_add:
        largest = max(abs(s["accumulator_low"]), abs(s["accumulator_high"]))
        value = largest * abs(s["accumulator_scale"])
        if not abs(s["accumulator_scale"]) < 2.0**64:
            return False
    if epilogue.residual_dtype is not None:
        ends = (end - s["residual_zero_point"] for end in INTEGER_RANGE[epilogue.residual_dtype])
        value += max(map(abs, ends)) * abs(s["residual_scale"])
    return value <= _LARGEST
