"""How many elements a computed constant has, known before it is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

from autoq.graph.shapes import broadcast

Values = Sequence[np.ndarray | None]

_BROADCASTING = (
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less",
    "GreaterOrEqual", "LessOrEqual", "Where", "Min", "Max", "Sum", "Mean",
)  # fmt: skip
_NO_LARGER = (
    "Abs", "ArgMax", "ArgMin", "Cast", "Ceil", "Clip", "Concat", "Cos", "CumSum", "Erf", "Exp",
    "EyeLike", "Flatten", "Floor", "Log", "Neg", "NonZero", "Not",
    "QuantizeLinear", "Reciprocal", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSum", "Relu", "Reshape", "Round", "ScatterElements", "ScatterND",
    "Sigmoid", "Sign", "Sin", "Slice", "Split", "Sqrt", "Squeeze", "Tanh", "Transpose", "Trilu",
    "Unsqueeze",
)  # fmt: skip


def _product(values: np.ndarray) -> float:
    return float(np.prod(values.astype(np.float64)))


def _expand(x: np.ndarray, shape: np.ndarray) -> float:
    sizes = tuple(int(size) for size in shape.reshape(-1))
    return float(math.prod(broadcast([x.shape, sizes])))


def _range(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> float:
    first, last, step = (float(value.reshape(())) for value in (start, limit, delta))
    if step == 0:
        raise ValueError("a step of 0")
    return max((last - first) / step, 0.0)


def _gather(axis: int, x: np.ndarray, indices: np.ndarray) -> float:
    return indices.size * x.size / max(x.shape[axis], 1)


def _gather_nd(batch_dims: int, x: np.ndarray, indices: np.ndarray) -> float:
    found = x.shape[batch_dims + indices.shape[-1] :]
    return indices.size / max(indices.shape[-1], 1) * math.prod(found)


def _pad(x: np.ndarray, pads: Sequence[int]) -> float:
    rank = len(pads) // 2
    edges = [float(pads[i]) + float(pads[i + rank]) for i in range(rank)]
    padded = [size + max(edge, 0.0) for size, edge in zip(x.shape, edges, strict=False)]
    return math.prod(padded) if rank == x.ndim else x.size * math.prod(1 + abs(e) for e in edges)


def _matmul(a: np.ndarray, b: np.ndarray) -> float:
    rows = math.prod(a.shape[:-1])
    columns = b.shape[-1] if b.ndim > 1 else 1
    return float(rows * columns * math.prod(b.shape[:-2]))


_FORMULAS: dict[str, Callable[[dict[str, Any], list[np.ndarray]], float]] = {
    "ConstantOfShape": lambda attributes, x: _product(x[0]),
    "Expand": lambda attributes, x: _expand(x[0], x[1]),
    "Gather": lambda attributes, x: _gather(attributes.get("axis", 0), x[0], x[1]),
    "GatherND": lambda attributes, x: _gather_nd(attributes.get("batch_dims", 0), x[0], x[1]),
    "MatMul": lambda attributes, x: _matmul(x[0], x[1]),
    "OneHot": lambda attributes, x: x[0].size * max(_product(x[1]), 0.0),
    "Pad": lambda attributes, x: _pad(
        x[0], attributes["pads"] if "pads" in attributes else x[1].reshape(-1).tolist()
    ),
    "Range": lambda attributes, x: _range(*x),
    "Tile": lambda attributes, x: x[0].size * _product(x[1]),
}

COMPUTED = frozenset((*_BROADCASTING, *_NO_LARGER, *_FORMULAS))
"""Operators that are computed where all their inputs are constant.

Each gives the same result at every run, in time and memory that its inputs bound: nothing random,
no loops and no branches, which hold graphs of their own.
"""


def constant_size(node: onnx.NodeProto, values: Values) -> float:
    """Elements of the result of a node of COMPUTED, or a bound of them.

    values are the node's inputs, None where one is left out. Raises ValueError or IndexError for
    inputs that no such node takes.
    """
    given = [value for value in values if value is not None]
    if node.op_type in _FORMULAS:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        return _FORMULAS[node.op_type](attributes, given)
    if node.op_type in _BROADCASTING:
        return float(math.prod(broadcast([value.shape for value in given])))
    widest = max((value.ndim for value in given), default=1)  # NonZero gives an index an axis
    return float(sum(value.size for value in given) * max(widest, 1))


def operations(node: onnx.NodeProto, values: Values, size: float) -> float:
    """Arithmetic operations, where the operator takes more than a few an element."""
    if node.op_type == "MatMul" and values[0] is not None and values[0].ndim:
        return size * values[0].shape[-1]
    return size
