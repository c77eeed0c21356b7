"""Clamping and rounding of float32 vectors to integers, as every quantised operator ends."""

from __future__ import annotations

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.templates.cpu.vector import cast, splat


def clamped(value: Expr, low: Expr, high: Expr, lanes: int) -> Expr:
    """float32 lanes bounded by two scalars."""
    return T.min(T.max(value, splat(low, lanes)), splat(high, lanes))


def requantised(
    value: Expr, low: Expr, high: Expr, zero_point: Expr, out_dtype: str, lanes: int
) -> Expr:
    """`clamp(rint(value), low, high) + zero_point` of float32 lanes as `out_dtype`.

    Rounding is half to even: `nearbyint` is one vector instruction under the default mode.
    """
    rounded = clamped(T.nearbyint(value), low, high, lanes) + splat(zero_point, lanes)
    return cast(cast(rounded, "int32", lanes), out_dtype, lanes)
