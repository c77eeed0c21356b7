"""Primitives as float32 vectors of a CPU, rounded one by one as numpy rounds them.

NaN comes out where NaN goes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.graph.ir import Primitive
from autoq.graph.lowering.exact_quotient import Parts, exact_parts
from autoq.templates.cpu import vector_functions
from autoq.templates.cpu.vector import held, splat, unfused

READ = ("int8", "uint8", "float32")
"""Dtypes of operands."""

Vector = Callable[..., Expr]
"""A primitive's result from the vectors of its arguments and, last, their lanes."""


def is_expression(primitive: Primitive) -> bool:
    """Whether it is one of EXPRESSIONS whose result is float32, or integers that one holds."""
    exact = primitive.op in ("quantize", "Identity") and primitive.dtype in ("int8", "uint8")
    return primitive.op in EXPRESSIONS and (primitive.dtype == "float32" or exact)


def expression(primitive: Primitive) -> Vector:
    """What computes a primitive."""
    return EXPRESSIONS[primitive.op](primitive)


def product(a: Expr, b: Expr, lanes: int) -> Expr:
    """A product that is rounded before anything is added to it."""
    return unfused(a * b, lanes)


def times(x: Expr, parts: Parts, lanes: int) -> Expr:
    """x times the sum of two parts."""
    large = _number(float(parts.large), lanes)
    if not parts.small:
        return product(x, large, lanes)
    rest = product(x, _number(float(parts.small), lanes), lanes)
    dtype = "float32" if lanes == 1 else f"float32x{lanes}"
    return T.call_llvm_pure_intrin(dtype, "llvm.fma", x, large, rest)


def _number(value: float, lanes: int) -> Expr:
    return splat(T.float32(value), lanes)


def _quantize(primitive: Primitive) -> Vector:
    parts = exact_parts(primitive["scale"], primitive["low"], primitive["high"])

    def compute(x: Expr, lanes: int) -> Expr:
        scale = _number(primitive["scale"], lanes)
        quotient = x / scale if parts is None else times(x, parts, lanes)
        value = held(T.nearbyint(quotient), lanes)
        low, high = _number(primitive["low"], lanes), _number(primitive["high"], lanes)
        value = held(T.Select(value > low, value, low), lanes)  # NaN becomes low
        value = T.Select(value < high, value, high)
        return value + _number(primitive["zero_point"], lanes) if primitive["zero_point"] else value

    return compute


def _dequantize(primitive: Primitive) -> Vector:
    def compute(x: Expr, lanes: int) -> Expr:
        centred = x - _number(primitive["zero_point"], lanes) if primitive["zero_point"] else x
        return product(centred, _number(primitive["scale"], lanes), lanes)

    return compute


def _at_least(x: Expr, low: Expr) -> Expr:
    return T.Select(x < low, low, x)


def _clip(low: float, high: float) -> Vector:
    def compute(x: Expr, lanes: int) -> Expr:
        if low > -math.inf:
            x = held(_at_least(x, _number(low, lanes)), lanes)
        most = _number(high, lanes)
        return T.Select(x > most, most, x) if high < math.inf else x

    return compute


def _sigmoid(x: Expr, lanes: int) -> Expr:
    one = _number(1.0, lanes)
    return one / (one + vector_functions.exp(-x, lanes))


def _hard_sigmoid(primitive: Primitive) -> Vector:
    clip = _clip(0.0, 1.0)

    def compute(x: Expr, lanes: int) -> Expr:
        scaled = product(x, _number(primitive["alpha"], lanes), lanes)
        return clip(held(scaled + _number(primitive["beta"], lanes), lanes), lanes)

    return compute


def _hard_swish(x: Expr, lanes: int) -> Expr:
    share = held(x / _number(6.0, lanes) + _number(0.5, lanes), lanes)
    return product(x, _clip(0.0, 1.0)(share, lanes), lanes)


def _leaky_relu(primitive: Primitive) -> Vector:
    def compute(x: Expr, lanes: int) -> Expr:
        return T.Select(x < _number(0.0, lanes), x * _number(primitive["alpha"], lanes), x)

    return compute


def _elu(primitive: Primitive) -> Vector:
    def compute(x: Expr, lanes: int) -> Expr:
        zero = _number(0.0, lanes)
        power = vector_functions.exp(T.Select(x < zero, x, zero), lanes)
        below = _number(primitive["alpha"], lanes) * (power - _number(1.0, lanes))
        return T.Select(x < zero, below, x)

    return compute


def _softplus(x: Expr, lanes: int) -> Expr:
    power = vector_functions.exp(-T.abs(x), lanes)
    return _at_least(x, _number(0.0, lanes)) + T.log(_number(1.0, lanes) + power)


def _smaller(a: Expr, b: Expr, lanes: int) -> Expr:
    """The smaller one, NaN if either is."""
    return _unless_nan(a, T.Select(a < b, a, b), lanes)


def _larger(a: Expr, b: Expr, lanes: int) -> Expr:
    """The larger one, NaN if either is."""
    return _unless_nan(a, T.Select(a > b, a, b), lanes)


def _unless_nan(a: Expr, value: Expr, lanes: int) -> Expr:
    """`value` where `a` is a number; TVM simplifies `a == a` and negated comparisons."""
    return T.Select(a <= _number(math.inf, lanes), value, a)


def _sign(x: Expr, lanes: int) -> Expr:
    zero, one = _number(0.0, lanes), _number(1.0, lanes)
    return T.Select(x > zero, one, T.Select(x < zero, -one, x))


def _compared(compare: Callable[[Expr, Expr], Expr]) -> Vector:
    """What a comparison says, as 1 or 0."""

    def compute(a: Expr, b: Expr, lanes: int) -> Expr:
        return T.Select(compare(a, b), _number(1.0, lanes), _number(0.0, lanes))

    return compute


def _is_nan(x: Expr, lanes: int) -> Expr:
    return T.Select(x <= _number(math.inf, lanes), _number(0.0, lanes), _number(1.0, lanes))


def _where(condition: Expr, a: Expr, b: Expr, lanes: int) -> Expr:
    return T.Select(condition == _number(0.0, lanes), b, a)


def _plain(compute: Vector) -> Callable[[Primitive], Vector]:
    """A primitive without attributes."""
    return lambda primitive: compute


EXPRESSIONS: dict[str, Callable[[Primitive], Vector]] = {
    "quantize": _quantize,
    "dequantize": _dequantize,
    "Identity": _plain(lambda x, lanes: x),
    "Cast": _plain(lambda x, lanes: x),
    "Relu": _plain(lambda x, lanes: _at_least(x, _number(0.0, lanes))),
    "Clip": lambda primitive: _clip(primitive["low"], primitive["high"]),
    "Sigmoid": _plain(_sigmoid),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain(_hard_swish),
    "LeakyRelu": _leaky_relu,
    "Elu": _elu,
    "Tanh": _plain(vector_functions.tanh),
    "Exp": _plain(vector_functions.exp),
    "Log": _plain(lambda x, lanes: T.log(x)),
    "Sqrt": _plain(lambda x, lanes: T.sqrt(x)),
    "Neg": _plain(lambda x, lanes: -x),
    "Abs": _plain(lambda x, lanes: T.abs(x)),
    "Reciprocal": _plain(lambda x, lanes: _number(1.0, lanes) / x),
    "Erf": _plain(vector_functions.erf),
    "Floor": _plain(lambda x, lanes: T.floor(x)),
    "Ceil": _plain(lambda x, lanes: T.ceil(x)),
    "Round": _plain(lambda x, lanes: T.nearbyint(x)),
    "Softplus": _plain(_softplus),
    "Sin": _plain(lambda x, lanes: T.sin(x)),
    "Cos": _plain(lambda x, lanes: T.cos(x)),
    "Sign": _plain(_sign),
    "IsNaN": _plain(_is_nan),
    "Add": _plain(lambda a, b, lanes: a + b),
    "Sub": _plain(lambda a, b, lanes: a - b),
    "Mul": _plain(product),
    "Div": _plain(lambda a, b, lanes: a / b),
    "Pow": _plain(lambda a, b, lanes: T.pow(a, b)),
    "Min": _plain(_smaller),
    "Max": _plain(_larger),
    "Equal": _plain(_compared(lambda a, b: a == b)),
    "Greater": _plain(_compared(lambda a, b: a > b)),
    "GreaterOrEqual": _plain(_compared(lambda a, b: a >= b)),
    "Where": _plain(_where),
}
"""What computes each op, from the primitive."""
