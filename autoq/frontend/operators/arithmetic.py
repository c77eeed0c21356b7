"""Elementwise operators."""

from __future__ import annotations

import math

import numpy as np
import onnx

from autoq.frontend.builder import GraphBuilder
from autoq.frontend.number_types import COMPUTED_AS, DOUBLE, HALVES
from autoq.frontend.operators.conditions import is_not_zero
from autoq.frontend.registry import OnnxNode, importer

_PLAIN = (
    "Relu", "Sigmoid", "HardSwish", "Tanh", "Exp", "Log", "Sqrt", "Neg", "Abs", "Reciprocal",
    "Erf", "Floor", "Ceil", "Round", "Softplus", "Sin", "Cos", "Sign",
)  # fmt: skip
_CAST_DTYPES = ("float32", "int32", "int8", "uint8")
_CAST_SOURCES = (*_CAST_DTYPES, "int4", "uint4")
_INTEGERS = _CAST_SOURCES[1:]


@importer(*_PLAIN)
def unary(node: OnnxNode, b: GraphBuilder) -> str:
    """Operators of one input without attributes."""
    return b.emit(node.op, [node.required(0, b)])


@importer("HardSigmoid")
def hard_sigmoid(node: OnnxNode, b: GraphBuilder) -> str:
    """`clip(alpha * x + beta, 0, 1)`."""
    alpha = float(node.attributes.get("alpha", 0.2))
    beta = float(node.attributes.get("beta", 0.5))
    return b.emit("HardSigmoid", [node.required(0, b)], alpha=alpha, beta=beta)


@importer("LeakyRelu", "Elu")
def leaky(node: OnnxNode, b: GraphBuilder) -> str:
    """Operators with one slope or scale `alpha`."""
    alpha = float(node.attributes.get("alpha", 0.01 if node.op == "LeakyRelu" else 1.0))
    return b.emit(node.op, [node.required(0, b)], alpha=alpha)


@importer("Clip")
def clip(node: OnnxNode, b: GraphBuilder) -> str:
    """Bounds as attributes (before opset 11) or constant inputs; absent ones do not bound."""
    x = node.required(0, b)
    if any(name and name not in b.graph.constants for name in node.inputs[1:]):
        return _between(node, b, x)
    bounds = []
    for index, (name, absent) in enumerate((("min", -math.inf), ("max", math.inf))):
        given = node.input(index + 1)
        if given is not None:
            value = float(b.constant(given, name).reshape(()))
        else:
            value = float(node.attributes.get(name, absent))
        # The largest float32 is how exporters write a bound that is none.
        beyond = math.copysign(1.0, absent) * value >= np.finfo(np.float32).max
        bounds.append(absent if beyond else value)
    return b.emit("Clip", [x], low=bounds[0], high=bounds[1])


def _between(node: OnnxNode, b: GraphBuilder, x: str) -> str:
    """`x` clamped to bounds that a run gives, of one element each."""
    for index, op in ((1, "Max"), (2, "Min")):
        bound = node.input(index)
        if bound is None:
            continue
        if b.dtype(bound) != b.dtype(x) or math.prod(b.shape(bound)) != 1:
            raise b.error(f"a bound {b.dtype(bound)}{list(b.shape(bound))} of {b.dtype(x)}")
        x = b.emit(op, [x, b.emit("Reshape", [bound], shape=())])
    return x


@importer("Add", "Sub", "Mul", "Div", "Pow")
def binary(node: OnnxNode, b: GraphBuilder) -> str:
    """Operators of two inputs with broadcasting."""
    names = [node.required(0, b), node.required(1, b)]
    if node.op == "Pow":
        names[1] = _real(b, names[1])
        power = _whole_power(b, *names)
        if power is not None:
            return power
    if b.dtype(names[0]) != b.dtype(names[1]):
        raise b.error(f"inputs of {b.dtype(names[0])} and {b.dtype(names[1])}")
    return b.emit(node.op, names)


def _whole_power(b: GraphBuilder, x: str, exponent: str) -> str | None:
    """The square or cube of float32 `x` as products, as onnxruntime computes them, None for others.

    A power takes some 30 times as long as a product.
    """
    value = b.graph.constants.get(exponent)
    if value is None or value.size != 1 or value.ndim > len(b.shape(x)) or b.dtype(x) != "float32":
        return None
    power = float(value.reshape(()))
    if power not in (2.0, 3.0):
        return None
    square = b.emit("Mul", [x, x])
    return square if power == 2.0 else b.emit("Mul", [square, x])


def _real(b: GraphBuilder, name: str) -> str:
    """An exponent, which may be of any number's dtype, as float32 where that is possible."""
    value = b.graph.constants.get(name)
    if value is not None and value.dtype.kind in "iuf":
        return b.add_constant(value.astype(np.float32))
    return b.emit("Cast", [name], "float32") if b.dtype(name) in _INTEGERS else name


@importer("Sum", "Min", "Max", "Mean")
def variadic(node: OnnxNode, b: GraphBuilder) -> str:
    """Any number of inputs, two at a time."""
    op = {"Sum": "Add", "Mean": "Add"}.get(node.op, node.op)
    result = node.required(0, b)
    for index in range(1, len(node.inputs)):
        result = b.emit(op, [result, node.required(index, b)])
    if node.op == "Mean" and len(node.inputs) > 1:
        result = b.emit("Div", [result, b.add_constant(np.float32(len(node.inputs)))])
    return result


@importer("Gelu")
@importer("Gelu", domain="com.microsoft")
def gelu(node: OnnxNode, b: GraphBuilder) -> str:
    """`x / 2 * (1 + erf(x / sqrt(2)))`, or its approximation by tanh."""
    return emit_gelu(b, node.required(0, b), node.attributes.get("approximate", "none") == "tanh")


def emit_gelu(b: GraphBuilder, x: str, by_tanh: bool) -> str:
    """Gelu of float32 `x`."""

    def number(value: float) -> str:
        return b.add_constant(np.float32(value))

    if by_tanh:
        cube = b.emit("Mul", [b.emit("Mul", [x, x]), x])
        inner = b.emit("Add", [x, b.emit("Mul", [cube, number(0.044715)])])
        share = b.emit("Tanh", [b.emit("Mul", [inner, number(math.sqrt(2 / math.pi))])])
    else:
        share = b.emit("Erf", [b.emit("Mul", [x, number(math.sqrt(0.5))])])
    half = b.emit("Mul", [x, number(0.5)])
    return b.emit("Mul", [half, b.emit("Add", [share, number(1.0)])])


@importer("PRelu")
def prelu(node: OnnxNode, b: GraphBuilder) -> str:
    """`max(x, 0) + slope * min(x, 0)`."""
    x, slope = node.required(0, b), node.required(1, b)
    if not np.all(np.isfinite(b.graph.constants.get(slope, 0.0))):
        raise b.error("a slope that is not finite")
    positive = b.emit("Relu", [x])
    negative = b.emit("Clip", [x], low=-math.inf, high=0.0)
    return b.emit("Add", [positive, b.emit("Mul", [negative, slope])])


@importer("Cast")
def cast(node: OnnxNode, b: GraphBuilder) -> str:
    """Between floats, integers and bools.

    Floats of 16 bits are computed in float32; a cast to them rounds what is of another type.
    """
    dtype = str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(node.attributes["to"])))
    return _emit_cast(b, node.required(0, b), dtype)


@importer("CastLike")
def cast_like(node: OnnxNode, b: GraphBuilder) -> str:
    """A Cast to the type of another tensor."""
    return _emit_cast(b, node.required(0, b), b.type_of_input(1) or b.dtype(node.required(1, b)))


def _emit_cast(b: GraphBuilder, x: str, to: str) -> str:
    if to == DOUBLE and b.type_of_input(0) in (*HALVES, DOUBLE):
        return x
    dtype = COMPUTED_AS.get(to, to)
    if dtype not in _CAST_DTYPES or b.dtype(x) not in _CAST_SOURCES:
        raise b.error(
            f"{b.dtype(x)} to {to}; casts from {', '.join(_CAST_SOURCES)} to "
            f"{', '.join(_CAST_DTYPES)}, int64, bool and 16-bit floats are supported"
        )
    if to == "bool":
        return x if b.type_of_input(0) == "bool" else is_not_zero(b, x)
    if dtype == "float32" and x in b.as_floats:
        return b.as_floats[x]
    if to in HALVES and to != b.type_of_input(0):
        return b.emit("Cast", [b.emit("Cast", [x], to)], dtype)
    return x if dtype == b.dtype(x) else b.emit("Cast", [x], dtype)
