"""The numpy meaning of the epilogue, and of how every quantised operator comes to integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import value_dtype
from autoq.templates.arrays.table import look_up
from autoq.templates.epilogue.activation import activated
from autoq.templates.epilogue.specification import FLOAT_OUTPUTS, SCALAR_NAMES, Epilogue


def clamp_numbers(value: np.ndarray, low: float, high: float) -> np.ndarray:
    """`value` within low and high on its way to an integer: NaN becomes low, as in onnxruntime."""
    return np.fmin(np.fmax(value, low), high)


def requantize_numbers(value: np.ndarray, low: float, high: float, zero_point: float) -> np.ndarray:
    """`clamp(rint(value), low, high) + zero_point`, in float32."""
    # Each new array of a MiB costs more in page faults than in arithmetic.
    result = np.asarray(np.rint(value))
    np.fmax(result, low, out=result)
    np.fmin(result, high, out=result)
    result += zero_point
    return result


@dataclass(frozen=True)
class FloatTerms:
    """What an epilogue of floats has behind the scale of its channels, None for what it has not.

    row_scale: float32, broadcastable to the accumulator, a factor; bias: float32 [k], added then;
    factor: float32 [k], of what is rounded before a residual is added; factor_bounds: float32 [2].
    """

    row_scale: np.ndarray | None = None
    bias: np.ndarray | None = None
    factor: np.ndarray | None = None
    factor_bounds: np.ndarray | None = None


def apply_epilogue(
    epilogue: Epilogue,
    accumulator: np.ndarray,
    bias: np.ndarray,
    scale: np.ndarray | None,
    scalars: np.ndarray,
    residual: np.ndarray | None,
    table: np.ndarray | None = None,
    terms: FloatTerms = FloatTerms(),
) -> np.ndarray:
    """Numpy reference of `Epilogue`.

    accumulator: int32 or float32 [..., k]; bias: same dtype, broadcastable to it; scale: float32
    [k], None for a float32 accumulator; scalars: float32 [8]; residual: [..., k] or None; table:
    [256], where the epilogue has one.
    Returns an array [..., k] of `epilogue.out_dtype`, 4-bit values unpacked as int8 or uint8.
    """
    s = dict(zip(SCALAR_NAMES, scalars.astype(np.float32), strict=True))
    total = accumulator + bias
    if epilogue.out_dtype == "int32":
        return total.astype(np.int32)
    value = total.astype(np.float32)
    if scale is not None:
        value *= scale.astype(np.float32)
    if terms.row_scale is not None:
        value *= terms.row_scale
    if terms.bias is not None:
        value += terms.bias
    if residual is not None:
        if epilogue.requantize_before_add:
            np.rint(value, out=value)
            np.clip(value, s["accumulator_low"], s["accumulator_high"], out=value)
            if terms.factor is not None and terms.factor_bounds is not None:
                value *= terms.factor
                np.rint(value, out=value)
                np.clip(value, *terms.factor_bounds, out=value)
            value *= s["accumulator_scale"]
        addend = residual.astype(np.float32)
        addend -= s["residual_zero_point"]
        addend *= s["residual_scale"]
        value = np.where(scale == 0, addend, value) if epilogue.concatenates else value + addend
    if epilogue.out_dtype in FLOAT_OUTPUTS:
        value = activated(value, epilogue.activation)
        if not epilogue.dynamic:
            value = np.clip(value, s["low"], s["high"])
        return value.astype(element(epilogue.out_dtype).dtype, copy=False)
    quantised = requantize_numbers(value, s["low"], s["high"], s["zero_point"])
    quantised = quantised.astype(value_dtype(epilogue.out_dtype))
    return quantised if table is None else look_up(table, quantised)
