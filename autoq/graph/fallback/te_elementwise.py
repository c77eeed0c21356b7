"""Elementwise primitives as TE expressions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import tirx

from autoq.graph.fallback.te_value import (
    Index,
    Value,
    clip,
    clip_numbers,
    constant,
    is_number,
    largest,
    least,
)
from autoq.graph.ir import Primitive
from autoq.graph.shapes import broadcast


def unary(function: Callable[[Primitive, Any], Any]) -> Callable[..., Value]:
    """A primitive of one argument from its expression."""

    def primitive_value(primitive: Primitive, x: Value) -> Value:
        return Value(
            x.shape,
            primitive.dtype,
            lambda index: function(primitive, x.at(index)).astype(primitive.dtype),
        )

    return primitive_value


def binary(function: Callable[[Any, Any], Any]) -> Callable[..., Value]:
    """A primitive of two arguments, broadcast, from its expression."""

    def primitive_value(primitive: Primitive, a: Value, b: Value) -> Value:
        shape = broadcast([a.shape, b.shape])

        def at(index: Index) -> Any:
            return function(a.broadcast_at(index), b.broadcast_at(index)).astype(primitive.dtype)

        return Value(shape, primitive.dtype, at)

    return primitive_value


def _where(primitive: Primitive, condition: Value, a: Value, b: Value) -> Value:
    """The one or the other by a condition that is 0 or not."""
    shape = broadcast([condition.shape, a.shape, b.shape])

    def at(index: Index) -> Any:
        holds = condition.broadcast_at(index) != tirx.const(0, condition.dtype)
        chosen = tirx.Select(holds, a.broadcast_at(index), b.broadcast_at(index))
        return chosen.astype(primitive.dtype)

    return Value(shape, primitive.dtype, at)


def _as_number(condition: Any) -> Any:
    """What a comparison says, as 1 or 0."""
    return tirx.Select(condition, constant(1.0), constant(0.0))


def _sign(primitive: Primitive, x: Any) -> Any:
    zero, one = tirx.const(0, primitive.dtype), tirx.const(1, primitive.dtype)
    return tirx.Select(x > zero, one, tirx.Select(x < zero, -one, x))


def _cast(primitive: Primitive, x: Value) -> Value:
    """Between types; bfloat16 by its bits, of which LLVM's functions for it are none of autoq's."""

    def at(index: Index) -> Any:
        value = x.at(index)
        if x.dtype == "bfloat16" != primitive.dtype:
            bits = tirx.reinterpret("uint16", value).astype("uint32") << tirx.const(16, "uint32")
            return tirx.reinterpret("float32", bits).astype(primitive.dtype)
        if primitive.dtype == "bfloat16" != x.dtype:
            return _brain(value.astype("float32"))
        return value.astype(primitive.dtype)

    return Value(x.shape, primitive.dtype, at)


def _brain(value: Any) -> Any:
    """float32 rounded to bfloat16, half to even."""
    bits = tirx.reinterpret("uint32", value)
    high = bits >> tirx.const(16, "uint32")
    odd = high & tirx.const(1, "uint32")
    rounded = (bits + tirx.const(0x7FFF, "uint32") + odd) >> tirx.const(16, "uint32")
    number = value <= constant(math.inf)
    kept = tirx.Select(number, rounded, high | tirx.const(0x40, "uint32"))
    return tirx.reinterpret("bfloat16", kept.astype("uint16"))


def _quantize(primitive: Primitive, x: Any) -> Any:
    rounded = tirx.nearbyint(x / constant(primitive["scale"]))
    clamped = clip_numbers(rounded, primitive["low"], primitive["high"])
    return (clamped + constant(float(primitive["zero_point"]))).astype("int32")


def _dequantize(primitive: Primitive, x: Any) -> Any:
    centred = (x.astype("int32") - primitive["zero_point"]).astype("float32")
    return centred * constant(primitive["scale"])


def _extreme(
    numbers: Callable[[Any, Any], Any], integers: Callable[[Any, Any], Any]
) -> Callable[..., Value]:
    """A primitive that chooses one of two arguments."""

    def primitive_value(primitive: Primitive, a: Value, b: Value) -> Value:
        return binary(numbers if primitive.dtype == "float32" else integers)(primitive, a, b)

    return primitive_value


def _relu(primitive: Primitive, x: Any) -> Any:
    zero = tirx.const(0, primitive.dtype)
    return tirx.Select(x < zero, zero, x)


ELEMENTWISE: dict[str, Callable[..., Value]] = {
    "quantize": unary(_quantize),
    "dequantize": unary(_dequantize),
    "Identity": unary(lambda primitive, x: x),
    "Cast": _cast,
    "Relu": unary(_relu),
    "Clip": unary(lambda primitive, x: clip(x, primitive["low"], primitive["high"])),
    "Sigmoid": unary(lambda primitive, x: constant(1.0) / (constant(1.0) + tirx.exp(-x))),
    "HardSigmoid": unary(
        lambda primitive, x: clip(
            x * constant(primitive["alpha"]) + constant(primitive["beta"]), 0.0, 1.0
        )
    ),
    "HardSwish": unary(lambda primitive, x: x * clip(x / constant(6.0) + constant(0.5), 0.0, 1.0)),
    "LeakyRelu": unary(
        lambda primitive, x: tirx.Select(x < constant(0.0), x * constant(primitive["alpha"]), x)
    ),
    "Elu": unary(
        lambda primitive, x: tirx.Select(
            x < constant(0.0),
            constant(primitive["alpha"]) * (tirx.exp(tirx.min(x, constant(0.0))) - constant(1.0)),
            x,
        )
    ),
    "Tanh": unary(lambda primitive, x: tirx.tanh(x)),
    "Exp": unary(lambda primitive, x: tirx.exp(x)),
    "Log": unary(lambda primitive, x: tirx.log(x)),
    "Sqrt": unary(lambda primitive, x: tirx.sqrt(x)),
    "Neg": unary(lambda primitive, x: -x),
    "Abs": unary(lambda primitive, x: tirx.abs(x)),
    "Reciprocal": unary(lambda primitive, x: constant(1.0) / x),
    "Erf": unary(lambda primitive, x: tirx.erf(x)),
    "Floor": unary(lambda primitive, x: tirx.floor(x)),
    "Ceil": unary(lambda primitive, x: tirx.ceil(x)),
    "Round": unary(lambda primitive, x: tirx.nearbyint(x)),
    "Softplus": unary(
        lambda primitive, x: _relu(primitive, x) + tirx.log(constant(1.0) + tirx.exp(-tirx.abs(x)))
    ),
    "Sin": unary(lambda primitive, x: tirx.sin(x)),
    "Cos": unary(lambda primitive, x: tirx.cos(x)),
    "Sign": unary(_sign),
    "IsNaN": unary(lambda primitive, x: tirx.Select(is_number(x), constant(0.0), constant(1.0))),
    "Add": binary(lambda a, b: a + b),
    "Sub": binary(lambda a, b: a - b),
    "Mul": binary(lambda a, b: a * b),
    "Div": binary(lambda a, b: a / b),
    "Pow": binary(lambda a, b: tirx.pow(a, b)),
    "Min": _extreme(least, tirx.min),
    "Max": _extreme(largest, tirx.max),
    "Equal": binary(lambda a, b: _as_number(a == b)),
    "Greater": binary(lambda a, b: _as_number(a > b)),
    "GreaterOrEqual": binary(lambda a, b: _as_number(a >= b)),
    "Where": _where,
}
