"""Clamping and rounding of float32 vectors to integers, as every quantised operator ends."""

from __future__ import annotations

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.templates.cpu.vector import cast, splat


def clamped(value: Expr, low: Expr, high: Expr, lanes: int) -> Expr:
    """float32 lanes bounded by two scalars; NaN stays NaN."""
    least, most = splat(low, lanes), splat(high, lanes)
    value = T.Select(value < least, least, value)
    return T.Select(value > most, most, value)


def _clamped_numbers(value: Expr, low: Expr, high: Expr, lanes: int) -> Expr:
    """float32 lanes on their way to integers, bounded by two scalars; NaN becomes `low`."""
    least, most = splat(low, lanes), splat(high, lanes)
    value = T.Select(value > least, value, least)
    return T.Select(value < most, value, most)


def requantised(
    value: Expr, low: Expr, high: Expr, zero_point: Expr, out_dtype: str, lanes: int
) -> Expr:
    """`clamp(rint(value), low, high) + zero_point` of float32 lanes as `out_dtype`.

    Rounding is half to even: `nearbyint` is one vector instruction under the default mode. NaN
    becomes `low + zero_point`, as in onnxruntime.
    """
    rounded = _clamped_numbers(T.nearbyint(value), low, high, lanes) + splat(zero_point, lanes)
    return cast(cast(rounded, "int32", lanes), out_dtype, lanes)
