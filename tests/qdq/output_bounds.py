"""What a quantised ONNX model may give: bounds of every element of every tensor.

Interval arithmetic in float64 over the model's own nodes. Where all of an operator's values are
multiples of a power of two that float32 holds exactly, its bounds meet: then there is one right
answer. Else they are widened by what float32 sums in any order may be off, which moves a
quantised element only where a bound lies across a tie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper
from scipy.special import expit

from qdq.bounds import ULP, Bounds, is_power_of_two, linear_of, product_of, sum_of, widened
from qdq.bounds_windows import average, conv, max_pool
from qdq.selections import RULES


def _function_error(value: np.ndarray) -> np.ndarray:
    """What exponentials and the like may be off: onnxruntime's sigmoid is by 1e-5 of itself."""
    return 2.0**-16 * np.abs(value) + 2.0**-22


def _increasing(function: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Bounds]:
    def bounds(node: Any, x: Bounds) -> Bounds:
        low, high = function(x.low), function(x.high)
        error = _function_error(np.maximum(np.abs(low), np.abs(high)))
        return Bounds(low - error, high + error)

    return bounds


def _clamp(low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda v: np.minimum(np.maximum(v, low), high)


def _hard_swish(node: Any, x: Bounds) -> Bounds:
    def function(v: np.ndarray) -> np.ndarray:
        return v * np.clip(v / 6 + 0.5, 0, 1)

    ends = np.stack([function(x.low), function(x.high)])
    inside = (x.low < -1.5) & (x.high > -1.5)
    low = np.where(inside, -0.375, ends.min(0))
    error = _function_error(x.largest)
    return Bounds(low - error, ends.max(0) + error)


def _hard_sigmoid(node: Any, x: Bounds) -> Bounds:
    alpha, beta = node["alpha"], node["beta"]
    grid = None if x.grid is None else min(x.grid * alpha, beta)
    reach = x.largest * alpha + beta
    low, high = x.low * alpha + beta, x.high * alpha + beta
    y = widened(low, high, 4 * ULP * reach, grid, reach)
    return y.map(_clamp(0.0, 1.0))


def _leaky(node: Any, x: Bounds) -> Bounds:
    alpha = float(np.float32(node.get("alpha", 0.01)))
    low, high = (np.where(v < 0, v * alpha, v) for v in (x.low, x.high))
    return Bounds(low - 4 * ULP * np.abs(low), high + 4 * ULP * np.abs(high))


def _softmax(node: Any, x: Bounds) -> Bounds:
    axis = node.get("axis", -1)
    top = x.high.max(axis=axis, keepdims=True)
    low, high = np.exp(x.low - top), np.exp(x.high - top)
    least = low / (low + high.sum(axis=axis, keepdims=True) - high)
    most = high / (high + low.sum(axis=axis, keepdims=True) - low)
    error = _function_error(most)
    return Bounds(least - error, most + error)


def _quantize(node: Any, x: Bounds, scale: Bounds, zero_point: Bounds) -> Bounds:
    s, limits = float(scale.low), ml_dtypes.iinfo(node["dtype"])

    def quantised(v: np.ndarray, side: float) -> np.ndarray:
        error = 0.0 if is_power_of_two(s) else 4 * ULP * np.abs(v / s)
        return np.clip(np.rint(v / s + side * error) + zero_point.low, limits.min, limits.max)

    return Bounds(quantised(x.low, -1.0), quantised(x.high, 1.0), 1.0)


def _dequantize(node: Any, x: Bounds, scale: Bounds, zero_point: Bounds) -> Bounds:
    axis = node.get("axis", 1)

    def along(values: np.ndarray) -> np.ndarray:
        shape = [1] * x.low.ndim
        if values.size > 1:
            shape[axis] = values.size
        return values.reshape(shape) if values.size > 1 else values.reshape(())

    s, z = along(scale.low), along(zero_point.low)
    low, high = (x.low - z) * s, (x.high - z) * s
    exact = all(is_power_of_two(float(v)) for v in scale.low.reshape(-1))
    grid = float(scale.low.min()) if exact else None
    error = 0.0 if exact else ULP * np.maximum(np.abs(low), np.abs(high))
    return Bounds(low - error, high + error, grid, s, constant=x.constant)


def _gemm(node: Any, x: Bounds, w: Bounds, bias: Bounds | None = None) -> Bounds:
    x = x.map(np.transpose) if node.get("transA", 0) else x
    weight = w.low if node.get("transB", 0) else w.low.T
    y = linear_of(node, x, Bounds(weight, weight, w.grid), lambda a, b: a @ b.T)
    if x.scale is not None and w.scale is not None:
        y.step = np.broadcast_to(x.scale * w.scale.reshape(-1), (len(weight),))
    alpha, beta = (Bounds.of(np.asarray(node.get(n, 1.0)), True) for n in ("alpha", "beta"))
    y = y if alpha.low == 1 else product_of(y, alpha)
    if bias is None or beta.low == 0:
        return y
    return sum_of(y, bias if beta.low == 1 else Bounds.of(bias.low * beta.low, bias.constant))


def _matmul(node: Any, a: Bounds, b: Bounds) -> Bounds:
    if b.constant and b.low.ndim == 2:
        return _gemm({}, a, b)
    middle, half = (b.low + b.high) / 2, (b.high - b.low) / 2
    centre, spread = (a.low + a.high) / 2, (a.high - a.low) / 2
    y, reach = centre @ middle, a.largest @ b.largest
    extra = spread @ np.abs(middle) + np.abs(centre) @ half + spread @ half
    grid = None if a.grid is None or b.grid is None else a.grid * b.grid
    error = (a.low.shape[-1] + 8) * ULP * reach
    return widened(y - extra, y + extra, error, grid, reach)


def _mean(node: Any, x: Bounds, given: Bounds | None = None) -> Bounds:
    axes = tuple(node["axes"] if given is None else given.low.astype(int).tolist())
    count = math.prod(x.low.shape[axis] for axis in axes)
    low, high = (v.mean(axis=axes, keepdims=True) for v in (x.low, x.high))
    reach = x.largest.sum(axis=axes, keepdims=True)
    grid = x.grid / count if is_power_of_two(count) and x.grid is not None else None
    return widened(low, high, (count + 8) * ULP * reach / count, grid, reach)


def _norm(node: Any, x: Bounds, *constants: Bounds) -> Bounds:
    scale, bias, mean, variance = (c.low.reshape(-1, 1, 1) for c in constants)
    factor = scale / np.sqrt(variance + node.get("epsilon", 1e-5))
    offset = bias - mean * factor
    step = x.step
    ends = np.stack([x.low * factor, x.high * factor])
    error = 16 * ULP * (x.largest * np.abs(factor) + np.abs(offset) + np.abs(mean * factor))
    if step is not None:
        error = error + 0.5 * step * np.abs(factor)
    return Bounds(ends.min(0) + offset - error, ends.max(0) + offset + error)


def _pad(node: Any, x: Bounds, pads: Bounds, value: Bounds | None = None) -> Bounds:
    edges = pads.low.astype(int).reshape(2, -1).T
    if node.get("mode", b"constant") == b"edge":
        return x.map(lambda v: np.pad(v, edges, mode="edge"))
    outside = 0.0 if value is None else float(value.low)
    grid = x.grid if x.grid is not None and outside % x.grid == 0 else None
    low, high = (np.pad(v, edges, constant_values=outside) for v in (x.low, x.high))
    return Bounds(low, high, grid, x.scale)


def _slice(node: Any, x: Bounds, *bounds: Bounds) -> Bounds:
    starts, ends, axes, steps = (b.low.astype(int).tolist() for b in bounds)
    where = [slice(None)] * x.low.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        where[axis] = slice(*slice(start, end, step).indices(x.low.shape[axis]))
        if step < 0 and where[axis].stop < 0:
            where[axis] = slice(where[axis].start, None, step)
    return x.map(lambda v: v[tuple(where)])


def _concat(node: Any, *parts: Bounds) -> Bounds:
    grids = [part.grid for part in parts]
    low, high = (np.concatenate([getattr(p, end) for p in parts], node["axis"])
                 for end in ("low", "high"))  # fmt: skip
    return Bounds(low, high, None if None in grids else min(grids), parts[0].scale)


def _extreme(choose: Callable[..., np.ndarray]) -> Callable[..., Bounds]:
    def bounds(node: Any, a: Bounds, b: Bounds) -> Bounds:
        grid = None if a.grid is None or b.grid is None else min(a.grid, b.grid)
        return Bounds(choose(a.low, b.low), choose(a.high, b.high), grid)

    return bounds


def _clip(node: Any, x: Bounds, low: Bounds | None = None, high: Bounds | None = None) -> Bounds:
    ends = (-np.inf if low is None else float(low.low), np.inf if high is None else float(high.low))
    grid = x.grid if x.grid and all(not math.isfinite(e) or e % x.grid == 0 for e in ends) else None
    return Bounds(_clamp(*ends)(x.low), _clamp(*ends)(x.high), grid)


_RULES: dict[str, Callable[..., Bounds]] = {
    "Identity": lambda node, x: x,
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "Conv": conv,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": lambda node, a, b: sum_of(a, b),
    "Sub": lambda node, a, b: sum_of(a, b, -1.0),
    "Mul": lambda node, a, b: product_of(a, b),
    "Min": _extreme(np.minimum),
    "Max": _extreme(np.maximum),
    "Relu": lambda node, x: x.map(lambda v: np.maximum(v, 0)),
    "Clip": _clip,
    "Sigmoid": _increasing(expit),
    "Tanh": _increasing(np.tanh),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky,
    "Softmax": _softmax,
    "MaxPool": max_pool,
    "GlobalMaxPool": max_pool,
    "AveragePool": average,
    "GlobalAveragePool": average,
    "ReduceMean": _mean,
    "BatchNormalization": _norm,
    "Concat": _concat,
    "Transpose": lambda node, x: x.map(lambda v: v.transpose(node["perm"])),
    "Reshape": lambda node, x, s: x.map(lambda v: v.reshape(s.low.astype(int))),
    "Flatten": lambda node, x: x.map(lambda v: v.reshape(math.prod(v.shape[: node["axis"]]), -1)),
    "Pad": _pad,
    "Slice": _slice,
    **RULES,
}
OPERATORS = tuple(_RULES)


def output_bounds(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, Bounds]:
    """Bounds of each output; opset 17 or 21, operators of OPERATORS."""
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    dtypes = {name: array.dtype for name, array in arrays.items()}
    known = {name: Bounds.of(array, True) for name, array in arrays.items()}
    known |= {name: Bounds.of(array, False) for name, array in feeds.items()}
    for node in model.graph.node:
        attributes: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        inputs = [known[name] if name else None for name in node.input]
        if node.op_type == "QuantizeLinear":
            attributes["dtype"] = dtypes[node.input[2]]
        known[node.output[0]] = _RULES[node.op_type](attributes, *inputs)
    return {output.name: known[output.name] for output in model.graph.output}
