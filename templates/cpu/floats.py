"""16-bit floats of a CPU's vectors to float32 and back."""

from __future__ import annotations

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.templates.cpu.vector import cast, held, splat


def widened(value: Expr, dtype: str, lanes: int) -> Expr:
    """float16 or bfloat16 lanes as float32."""
    if dtype != "bfloat16":
        return cast(value, "float32", lanes)
    bits = cast(_reinterpreted(value, "uint16", lanes), "uint32", lanes)
    return _reinterpreted(bits << splat(T.uint32(16), lanes), "float32", lanes)


def narrowed(value: Expr, dtype: str, lanes: int) -> Expr:
    """float32 lanes rounded to a float, half to even; NaN stays one."""
    if dtype != "bfloat16":
        return cast(value, dtype, lanes)
    value = held(value, lanes)
    bits = held(_reinterpreted(value, "uint32", lanes), lanes, "uint32")
    high = bits >> splat(T.uint32(16), lanes)
    odd = high & splat(T.uint32(1), lanes)
    rounded = (bits + splat(T.uint32(0x7FFF), lanes) + odd) >> splat(T.uint32(16), lanes)
    number = value <= splat(T.float32(float("inf")), lanes)
    kept = T.Select(number, rounded, high | splat(T.uint32(0x40), lanes))
    return _reinterpreted(cast(kept, "uint16", lanes), "bfloat16", lanes)


def _reinterpreted(value: Expr, dtype: str, lanes: int) -> Expr:
    return T.reinterpret(dtype if lanes == 1 else f"{dtype}x{lanes}", value)
