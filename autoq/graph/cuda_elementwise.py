"""Element-wise operators as CUDA: every step one statement over float32, in the steps' order.

Products, sums and quotients are rounded one by one, as numpy rounds them. NaN comes out where NaN
goes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from autoq.graph.exact_reciprocal import exact_reciprocal
from autoq.graph.ir import Operator, Step
from autoq.graph.shapes import broadcast
from autoq.templates.cuda.elementwise import ElementProgram, float_literal
from autoq.templates.epilogue import INTEGER_RANGE

_READ = ("int8", "uint8", "float32")
_MOST_OPERANDS = 8
_MOST_STEPS = 64

_TAKEN = ""
"""In place of a zero point that was taken off when the value was read."""
_LEAST_SCALE = np.float32(2.0**-60)
"""Neither such a scale nor its reciprocal underflows in a correction."""

_HELPERS = r"""
// NaN if either is.
__device__ __forceinline__ float at_least(float a, float b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float at_most(float a, float b) { return a < b || a != a ? a : b; }
// x / scale as __fdiv_rn gives it, for quotients that matter to a byte: the reciprocal is rounded
// to nearest, so that the second correction is exact (Markstein 1990); far larger quotients,
// infinities among them, are only ever clamped.
__device__ __forceinline__ float quotient(float x, float scale, float reciprocal) {
  const float rough = __fmul_rn(x, reciprocal);
  const float near = __fmaf_rn(__fmaf_rn(-rough, scale, x), reciprocal, rough);
  const float exact = __fmaf_rn(__fmaf_rn(-near, scale, x), reciprocal, near);
  return fabsf(rough) < 1048576.f ? exact : rough;
}
"""


def element_program(node: Operator) -> ElementProgram | None:
    """The operator for one element, None where it is not element-wise or of other dtypes.

    The last step may be a quantisation: its rounding is then the kernel's.
    """
    constants = [(array.shape, str(array.dtype)) for array in node.constants]
    operands = [*zip(node.input_shapes, node.input_dtypes, strict=True), *constants]
    shapes = [shape for shape, _ in operands]
    fits = (
        0 < len(operands) <= _MOST_OPERANDS
        and len(node.steps) <= _MOST_STEPS
        and all(dtype in _READ for _, dtype in operands)
        and node.steps[-1].dtype in _READ
        and all(step.op in _EXPRESSIONS and _is_simple(step) for step in node.steps)
        and 0 < math.prod(node.output_shape) < 1 << 31
    )
    if not fits or tuple(broadcast(shapes)) != tuple(node.output_shape):
        return None
    zero_points = tuple(_zero_point(node, index) for index in range(len(operands)))
    return _written(node, zero_points)


def _is_simple(step: Step) -> bool:
    """Whether the result of a step is float32, or integers that a float32 holds exactly."""
    return step.dtype == "float32" or (
        step.op in ("quantize", "Identity") and step.dtype in ("int8", "uint8")
    )


def _zero_point(node: Operator, index: int) -> float:
    """What every reader of an operand takes from it first, else 0."""
    readers = [step for step in node.steps if index in step.arguments]
    offsets = {step["zero_point"] for step in readers if step.op == "dequantize"}
    alone = len(offsets) == 1 and all(step.op == "dequantize" for step in readers)
    return float(offsets.pop()) if alone else 0.0


def _written(node: Operator, zero_points: tuple[float, ...]) -> ElementProgram:
    last = node.steps[-1]
    rounds = last.op == "quantize"
    names = [f"x{index}" for index in range(len(zero_points))]
    parameters = ", ".join(f"float {name}" for name in names)
    lines = [f"__device__ __forceinline__ float element({parameters}) {{"]
    for number, step in enumerate(node.steps[:-1] if rounds else node.steps):
        arguments = [names[index] for index in step.arguments]
        if step.op == "dequantize":
            first = step.arguments[0]
            centred = first < len(zero_points) and zero_points[first] != 0.0
            arguments.append(_TAKEN if centred else float_literal(step["zero_point"]))
        lines.append(f"  const float v{number} = {_EXPRESSIONS[step.op](step, *arguments)};")
        names.append(f"v{number}")
    result = names[-1]
    if rounds:
        result, factor = names[last.arguments[0]], exact_reciprocal(node)
        result = _divided(last, result) if factor is None else _multiplied(result, factor)
    source = _HELPERS + "\n".join([*lines, f"  return {result};", "}\n"])
    if rounds:
        bounds = (float(last["low"]), float(last["high"]), float(last["zero_point"]))
        return ElementProgram(source, zero_points, last.dtype, *bounds)
    if last.dtype == "float32":
        return ElementProgram(source, zero_points, last.dtype)
    least, most = INTEGER_RANGE[last.dtype]
    return ElementProgram(source, zero_points, last.dtype, float(least), float(most))


def _multiplied(x: str, factor: np.float32) -> str:
    return f"__fmul_rn({x}, {float_literal(factor)})"


def _divided(step: Step, x: str) -> str:
    """x over a quantisation's scale."""
    scale = np.float32(step["scale"])
    reciprocal = np.float32(1.0) / scale
    if not _LEAST_SCALE < scale < 1 / _LEAST_SCALE:
        return f"__fdiv_rn({x}, {float_literal(scale)})"
    return f"quotient({x}, {float_literal(scale)}, {float_literal(reciprocal)})"


def _quantize(step: Step, x: str) -> str:
    low, high = float_literal(step["low"]), float_literal(step["high"])
    clamped = f"fminf(fmaxf(rintf({_divided(step, x)}), {low}), {high})"
    return f"__fadd_rn({clamped}, {float_literal(step['zero_point'])})"


def _dequantize(step: Step, x: str, zero_point: str) -> str:
    centred = x if zero_point == _TAKEN else f"__fsub_rn({x}, {zero_point})"
    return f"__fmul_rn({centred}, {float_literal(step['scale'])})"


def _clip(x: str, low: float, high: float) -> str:
    """x clamped by comparisons, which NaN passes."""
    if low > -math.inf:
        x = f"at_least({x}, {float_literal(low)})"
    return f"at_most({x}, {float_literal(high)})" if high < math.inf else x


def _hard_sigmoid(step: Step, x: str) -> str:
    product = f"__fmul_rn({x}, {float_literal(step['alpha'])})"
    return _clip(f"__fadd_rn({product}, {float_literal(step['beta'])})", 0.0, 1.0)


def _hard_swish(step: Step, x: str) -> str:
    return f"__fmul_rn({x}, {_clip(f'__fadd_rn(__fdiv_rn({x}, 6.f), 0.5f)', 0.0, 1.0)})"


def _leaky_relu(step: Step, x: str) -> str:
    return f"({x} < 0.f ? __fmul_rn({x}, {float_literal(step['alpha'])}) : {x})"


def _elu(step: Step, x: str) -> str:
    below = f"__fmul_rn({float_literal(step['alpha'])}, __fsub_rn(expf({x}), 1.f))"
    return f"({x} < 0.f ? {below} : {x})"


def _softplus(step: Step, x: str) -> str:
    return f"__fadd_rn(at_least({x}, 0.f), logf(__fadd_rn(1.f, expf(-fabsf({x})))))"


def _call(form: str) -> Callable[..., str]:
    """A step whose expression is `form` with its arguments in place of {0} and {1}."""
    return lambda step, *arguments: form.format(*arguments)


_EXPRESSIONS: dict[str, Callable[..., str]] = {
    "quantize": _quantize,
    "dequantize": _dequantize,
    "Identity": _call("{0}"),
    "Cast": _call("{0}"),
    "Relu": _call("at_least({0}, 0.f)"),
    "Clip": lambda step, x: _clip(x, step["low"], step["high"]),
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
    "Softplus": _softplus,
    "Add": _call("__fadd_rn({0}, {1})"),
    "Sub": _call("__fsub_rn({0}, {1})"),
    "Mul": _call("__fmul_rn({0}, {1})"),
    "Div": _call("__fdiv_rn({0}, {1})"),
    "Pow": _call("powf({0}, {1})"),
    "Min": _call("at_most({0}, {1})"),
    "Max": _call("at_least({0}, {1})"),
}
