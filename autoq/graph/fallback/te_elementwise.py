"""Elementwise steps as TE expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from autoq.graph.fallback.te_value import Index, Value, clip, clip_numbers, constant, largest, least
from autoq.graph.ir import Step
from autoq.graph.shapes import broadcast


def unary(function: Callable[[Step, Any], Any]) -> Callable[..., Value]:
    """A step of one argument from its expression."""

    def step_value(step: Step, x: Value) -> Value:
        return Value(
            x.shape, step.dtype, lambda index: function(step, x.at(index)).astype(step.dtype)
        )

    return step_value


def binary(function: Callable[[Any, Any], Any]) -> Callable[..., Value]:
    """A step of two arguments, broadcast, from its expression."""

    def step_value(step: Step, a: Value, b: Value) -> Value:
        shape = broadcast([a.shape, b.shape])

        def at(index: Index) -> Any:
            return function(a.broadcast_at(index), b.broadcast_at(index)).astype(step.dtype)

        return Value(shape, step.dtype, at)

    return step_value


def _quantize(step: Step, x: Any) -> Any:
    rounded = tirx.nearbyint(x / constant(step["scale"]))
    clamped = clip_numbers(rounded, step["low"], step["high"])
    return (clamped + constant(float(step["zero_point"]))).astype("int32")


def _dequantize(step: Step, x: Any) -> Any:
    centred = (x.astype("int32") - step["zero_point"]).astype("float32")
    return centred * constant(step["scale"])


def _extreme(
    numbers: Callable[[Any, Any], Any], integers: Callable[[Any, Any], Any]
) -> Callable[..., Value]:
    """A step that chooses one of two arguments."""

    def step_value(step: Step, a: Value, b: Value) -> Value:
        return binary(numbers if step.dtype == "float32" else integers)(step, a, b)

    return step_value


def _relu(step: Step, x: Any) -> Any:
    zero = tirx.const(0, step.dtype)
    return tirx.Select(x < zero, zero, x)


ELEMENTWISE: dict[str, Callable[..., Value]] = {
    "quantize": unary(_quantize),
    "dequantize": unary(_dequantize),
    "Identity": unary(lambda step, x: x),
    "Cast": unary(lambda step, x: x),
    "Relu": unary(_relu),
    "Clip": unary(lambda step, x: clip(x, step["low"], step["high"])),
    "Sigmoid": unary(lambda step, x: constant(1.0) / (constant(1.0) + tirx.exp(-x))),
    "HardSigmoid": unary(
        lambda step, x: clip(x * constant(step["alpha"]) + constant(step["beta"]), 0.0, 1.0)
    ),
    "HardSwish": unary(lambda step, x: x * clip(x / constant(6.0) + constant(0.5), 0.0, 1.0)),
    "LeakyRelu": unary(
        lambda step, x: tirx.Select(x < constant(0.0), x * constant(step["alpha"]), x)
    ),
    "Elu": unary(
        lambda step, x: tirx.Select(
            x < constant(0.0),
            constant(step["alpha"]) * (tirx.exp(tirx.min(x, constant(0.0))) - constant(1.0)),
            x,
        )
    ),
    "Tanh": unary(lambda step, x: tirx.tanh(x)),
    "Exp": unary(lambda step, x: tirx.exp(x)),
    "Log": unary(lambda step, x: tirx.log(x)),
    "Sqrt": unary(lambda step, x: tirx.sqrt(x)),
    "Neg": unary(lambda step, x: -x),
    "Abs": unary(lambda step, x: tirx.abs(x)),
    "Reciprocal": unary(lambda step, x: constant(1.0) / x),
    "Erf": unary(lambda step, x: tirx.erf(x)),
    "Floor": unary(lambda step, x: tirx.floor(x)),
    "Ceil": unary(lambda step, x: tirx.ceil(x)),
    "Softplus": unary(
        lambda step, x: _relu(step, x) + tirx.log(constant(1.0) + tirx.exp(-tirx.abs(x)))
    ),
    "Add": binary(lambda a, b: a + b),
    "Sub": binary(lambda a, b: a - b),
    "Mul": binary(lambda a, b: a * b),
    "Div": binary(lambda a, b: a / b),
    "Pow": binary(lambda a, b: tirx.pow(a, b)),
    "Min": _extreme(least, tirx.min),
    "Max": _extreme(largest, tirx.max),
}
