"""Functions of float32 vectors that LLVM would compute lane by lane through the C library.

Each is a polynomial or a quotient of two, fitted to the least relative error, and lies within 8
units in the last place of the function. NaN comes out where NaN goes in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.templates.cpu.vector import cast, held, splat

_ERF = (
    4.0,
    (1.12837917, 0.185205435, 0.054316962, 0.00384967072, 0.000379599868, 4.6844825e-06,
     -1.32008524e-08),
    (1.0, 0.497467456, 0.113959116, 0.0154621772, 0.00130756988, 6.31078044e-05),
)  # fmt: skip
_TANH = (
    9.0,
    (1.0, 0.13680831, 0.00386947587, 2.80306542e-05, 3.06409312e-08, -1.22450616e-11),
    (1.0, 0.470141631, 0.0272500395, 0.000394065639, 1.28898891e-06),
)
"""An odd function that is 1 from the first number on: `x P(x * x) / Q(x * x)` before it, the
coefficients of P and Q from the constant one on."""

_EXP = (1.0, 1.0, 0.5, 1.66666657e-01, 4.16667275e-02, 8.33336823e-03, 1.39316122e-03)
_LOG2_E = 1.44269504
_LN_2 = (0.693359375, -2.12194440e-4)
"""ln 2 as a number of few bits, whose small multiples are exact, and the rest."""
_EXP_RANGE = (-104.0, 89.0)
"""The arguments at which exp has become 0 and infinity."""


def exp(x: Expr, lanes: int) -> Expr:
    """e to the power of x: that of a number within half of ln 2, times a power of two."""
    x = held(_clamped(x, *_EXP_RANGE, lanes), lanes)
    powers = held(T.nearbyint(x * _number(_LOG2_E, lanes)), lanes)
    rest = x - powers * _number(_LN_2[0], lanes)
    rest = held(rest - powers * _number(_LN_2[1], lanes), lanes)
    # In two factors: one of them alone could not hold what is a subnormal number in the end.
    exponent = held(cast(powers, "int32", lanes), lanes, "int32")
    half = held(exponent >> splat(T.int32(1), lanes), lanes, "int32")
    value = _polynomial(rest, _EXP, lanes) * _power_of_two(half, lanes)
    return value * _power_of_two(exponent - half, lanes)


def erf(x: Expr, lanes: int) -> Expr:
    """The error function."""
    return _saturating(x, *_ERF, lanes)


def tanh(x: Expr, lanes: int) -> Expr:
    """The hyperbolic tangent."""
    return _saturating(x, *_TANH, lanes)


def _saturating(
    x: Expr, end: float, above: Sequence[float], below: Sequence[float], lanes: int
) -> Expr:
    x = held(_clamped(x, -end, end, lanes), lanes)
    square = held(x * x, lanes)
    quotient = x * _polynomial(square, above, lanes) / _polynomial(square, below, lanes)
    return _clamped(held(quotient, lanes), -1.0, 1.0, lanes)


def _polynomial(x: Expr, coefficients: Sequence[float], lanes: int) -> Expr:
    value = _number(coefficients[-1], lanes)
    for coefficient in coefficients[-2::-1]:
        value = value * x + _number(coefficient, lanes)
    return value


def _power_of_two(exponent: Expr, lanes: int) -> Expr:
    """2 to a power from -127 to 128, which are 0 and infinity, by its bits."""
    bits = (exponent + splat(T.int32(127), lanes)) << splat(T.int32(23), lanes)
    return T.reinterpret("float32" if lanes == 1 else f"float32x{lanes}", bits)


def _clamped(x: Expr, low: float, high: float, lanes: int) -> Expr:
    """x within bounds; comparisons with NaN fail, so that it stays."""
    least, most = _number(low, lanes), _number(high, lanes)
    x = T.Select(x < least, least, x)
    return T.Select(x > most, most, x)


def _number(value: float, lanes: int) -> Expr:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no coefficient")
    return splat(T.float32(value), lanes)
