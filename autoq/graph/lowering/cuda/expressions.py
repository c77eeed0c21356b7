"""Primitives as CUDA expressions over float32, rounded one by one as numpy rounds them.

NaN comes out where NaN goes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from autoq.graph.ir import Primitive
from autoq.graph.lowering.exact_quotient import Parts, exact_parts
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.cuda.movement.elementwise import float_literal

READ = ("int8", "uint8", "float16", "bfloat16", "float32")
"""Dtypes of operands."""

_TAKEN = ""
"""Stands for a zero point that was taken off when the value was read."""

HELPERS = r"""
// NaN if either is.
__device__ __forceinline__ float at_least(float a, float b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float at_most(float a, float b) { return a < b || a != a ? a : b; }
// x (large + small), where the parts have one sign: an infinity stays what it is.
__device__ __forceinline__ float times(float x, float large, float small) {
  return __fmaf_rn(x, large, __fmul_rn(x, small));
}
__device__ __forceinline__ float rounded_to_half(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__device__ __forceinline__ float rounded_to_brain(float x) {
  return __uint_as_float(brain_bits(x) << 16);
}
"""
"""Functions that expressions call."""

_ROUNDED = {"float16": "rounded_to_half", "bfloat16": "rounded_to_brain"}


def is_expression(primitive: Primitive) -> bool:
    """Whether it is one of EXPRESSIONS whose result is float32, or what one holds exactly."""
    exact = primitive.op in ("quantize", "Identity") and primitive.dtype in ("int8", "uint8")
    exact = exact or (primitive.op in ("Cast", "Identity") and primitive.dtype in _ROUNDED)
    return primitive.op in EXPRESSIONS and (primitive.dtype == "float32" or exact)


def zero_points(primitives: Sequence[Primitive], operands: int) -> tuple[float, ...]:
    """For each operand what every reader of it takes from it first, else 0."""
    return tuple(_zero_point(primitives, index) for index in range(operands))


def _zero_point(primitives: Sequence[Primitive], index: int) -> float:
    readers = [primitive for primitive in primitives if index in primitive.arguments]
    offsets = {primitive["zero_point"] for primitive in readers if primitive.op == "dequantize"}
    alone = len(offsets) == 1 and all(primitive.op == "dequantize" for primitive in readers)
    return float(offsets.pop()) if alone else 0.0


def expression(primitive: Primitive, names: Sequence[str], taken: Sequence[float]) -> str:
    """A primitive over values called `names`; `taken` are operands' zero points that are taken."""
    arguments = [names[index] for index in primitive.arguments]
    if primitive.op == "dequantize":
        first = primitive.arguments[0]
        centred = first < len(taken) and taken[first] != 0.0
        arguments.append(_TAKEN if centred else float_literal(primitive["zero_point"]))
    return EXPRESSIONS[primitive.op](primitive, *arguments)


def output_bounds(last: Primitive) -> tuple[float, float, float]:
    """low, high and zero_point of what the last primitive stores; zeros for floats."""
    if last.op == "quantize":
        return float(last["low"]), float(last["high"]), float(last["zero_point"])
    if last.dtype in (*_ROUNDED, "float32"):
        return 0.0, 0.0, 0.0
    least, most = INTEGER_RANGE[last.dtype]
    return float(least), float(most), 0.0


def multiplied(x: str, factor: np.float32) -> str:
    """x times a constant."""
    return f"__fmul_rn({x}, {float_literal(factor)})"


def divided(primitive: Primitive, x: str) -> str:
    """x over a quantisation's scale, so that it rounds to the same integer as the quotient."""
    parts = exact_parts(primitive["scale"], primitive["low"], primitive["high"])
    if parts is None:
        return f"__fdiv_rn({x}, {float_literal(primitive['scale'])})"
    return times(x, parts)


def times(x: str, parts: Parts) -> str:
    """x times the sum of two parts."""
    if not parts.small:
        return multiplied(x, parts.large)
    return f"times({x}, {float_literal(parts.large)}, {float_literal(parts.small)})"


def _quantize(primitive: Primitive, x: str) -> str:
    low, high = float_literal(primitive["low"]), float_literal(primitive["high"])
    clamped = f"fminf(fmaxf(rintf({divided(primitive, x)}), {low}), {high})"
    return f"__fadd_rn({clamped}, {float_literal(primitive['zero_point'])})"


def _dequantize(primitive: Primitive, x: str, zero_point: str) -> str:
    centred = x if zero_point == _TAKEN else f"__fsub_rn({x}, {zero_point})"
    return f"__fmul_rn({centred}, {float_literal(primitive['scale'])})"


def _clip(x: str, low: float, high: float) -> str:
    """x clamped by comparisons, which NaN passes."""
    if low > -math.inf:
        x = f"at_least({x}, {float_literal(low)})"
    return f"at_most({x}, {float_literal(high)})" if high < math.inf else x


def _cast(primitive: Primitive, x: str) -> str:
    """To float32, which holds every operand, or rounded to 16 bits."""
    return f"{_ROUNDED[primitive.dtype]}({x})" if primitive.dtype in _ROUNDED else x


def _hard_sigmoid(primitive: Primitive, x: str) -> str:
    product = f"__fmul_rn({x}, {float_literal(primitive['alpha'])})"
    return _clip(f"__fadd_rn({product}, {float_literal(primitive['beta'])})", 0.0, 1.0)


def _hard_swish(primitive: Primitive, x: str) -> str:
    return f"__fmul_rn({x}, {_clip(f'__fadd_rn(__fdiv_rn({x}, 6.f), 0.5f)', 0.0, 1.0)})"


def _leaky_relu(primitive: Primitive, x: str) -> str:
    return f"({x} < 0.f ? __fmul_rn({x}, {float_literal(primitive['alpha'])}) : {x})"


def _elu(primitive: Primitive, x: str) -> str:
    below = f"__fmul_rn({float_literal(primitive['alpha'])}, __fsub_rn(expf({x}), 1.f))"
    return f"({x} < 0.f ? {below} : {x})"


def _softplus(primitive: Primitive, x: str) -> str:
    return f"__fadd_rn(at_least({x}, 0.f), logf(__fadd_rn(1.f, expf(-fabsf({x})))))"


def _call(form: str) -> Callable[..., str]:
    """A primitive whose expression is `form` with its arguments in place of {0} and {1}."""
    return lambda primitive, *arguments: form.format(*arguments)


EXPRESSIONS: dict[str, Callable[..., str]] = {
    "quantize": _quantize,
    "dequantize": _dequantize,
    "Identity": _call("{0}"),
    "Cast": _cast,
    "Relu": _call("at_least({0}, 0.f)"),
    "Clip": lambda primitive, x: _clip(x, primitive["low"], primitive["high"]),
    "Sigmoid": _call("__fdiv_rn(1.f, __fadd_rn(1.f, expf(-{0})))"),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky_relu,
    "Elu": _elu,
    "Tanh": _call("tanhf({0})"),
    "Exp": _call("expf({0})"),
    "Log": _call("logf({0})"),
    "Sqrt": _call("__fsqrt_rn({0})"),
    "Neg": _call("(-{0})"),
    "Abs": _call("fabsf({0})"),
    "Reciprocal": _call("__fdiv_rn(1.f, {0})"),
    "Erf": _call("erff({0})"),
    "Floor": _call("floorf({0})"),
    "Ceil": _call("ceilf({0})"),
    "Round": _call("rintf({0})"),
    "Softplus": _softplus,
    "Sin": _call("sinf({0})"),
    "Cos": _call("cosf({0})"),
    "Sign": _call("({0} > 0.f ? 1.f : {0} < 0.f ? -1.f : {0})"),
    "IsNaN": _call("({0} != {0} ? 1.f : 0.f)"),
    "Add": _call("__fadd_rn({0}, {1})"),
    "Sub": _call("__fsub_rn({0}, {1})"),
    "Mul": _call("__fmul_rn({0}, {1})"),
    "Div": _call("__fdiv_rn({0}, {1})"),
    "Pow": _call("powf({0}, {1})"),
    "Min": _call("at_most({0}, {1})"),
    "Max": _call("at_least({0}, {1})"),
    "Equal": _call("({0} == {1} ? 1.f : 0.f)"),
    "Greater": _call("({0} > {1} ? 1.f : 0.f)"),
    "GreaterOrEqual": _call("({0} >= {1} ? 1.f : 0.f)"),
    "Where": _call("({0} != 0.f ? {1} : {2})"),
}
"""How the result of each op is computed, from the primitive and its arguments' names."""
