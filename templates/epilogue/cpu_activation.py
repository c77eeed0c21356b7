"""The activations of `activation.py` on a CPU's vectors."""

from __future__ import annotations

import math

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.templates.cpu.vector import held, splat
from autoq.templates.cpu.vector_functions import erf, exp, tanh
from autoq.templates.epilogue.activation import LEAST_FACTOR


def activated(v: Expr, activation: str, lanes: int) -> Expr:
    """An activation of float32 lanes; NaN stays NaN."""
    if activation == "none":
        return v
    v = held(v, lanes)

    def number(value: float) -> Expr:
        return splat(T.float32(value), lanes)

    if activation == "relu":
        return T.Select(v < number(0.0), number(0.0), v)
    least = number(LEAST_FACTOR[activation])
    factor = T.Select(v < least, least, v)
    if activation == "gelu":
        return number(0.5) * factor * (number(1.0) + erf(v * number(math.sqrt(0.5)), lanes))
    if activation == "gelu_tanh":
        inner = number(math.sqrt(2 / math.pi)) * (v + number(0.044715) * v * v * v)
        return number(0.5) * factor * (number(1.0) + tanh(inner, lanes))
    return factor / (number(1.0) + exp(-v, lanes))
