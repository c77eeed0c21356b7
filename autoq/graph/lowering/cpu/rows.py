"""Element-wise fusions, and those that reduce rows, as formulas over rows for the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.graph.ir import Fusion, Primitive
from autoq.graph.lowering.cpu.expressions import READ, expression, is_expression
from autoq.graph.shapes import broadcast
from autoq.templates.arrays.broadcasting import dense_strides, merged_axes
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu import vector_functions
from autoq.templates.cpu.movement.rows import LONGEST_ROW, RowArrays, RowFormula, RowValue
from autoq.templates.cpu.tasks import LANES
from autoq.templates.cpu.vector import splat

_MOST_PRIMITIVES = 64


def cpu_row_formula(node: Fusion) -> RowFormula | None:
    """The fusion for one row, None where something is in the way.

    Rows are the last axes: those that every reduction is over, or without one those on which all
    arrays agree. Arrays hold bytes or float32, each with all elements of a row or one, and rows
    have at least as many elements as a vector.
    """
    constants = [(array.shape, str(array.dtype)) for array in node.constants]
    operands = tuple(
        TensorSpec(f"x{i}", tuple(shape), dtype)
        for i, (shape, dtype) in enumerate(
            [*zip(node.input_shapes, node.input_dtypes, strict=True), *constants]
        )
    )
    reductions = [primitive for primitive in node.primitives if primitive.op in _REDUCTIONS]
    fits = (
        operands
        and len(node.primitives) <= _MOST_PRIMITIVES
        and all(item.dtype in READ for item in operands)
        and node.primitives[-1].dtype in READ
        and all(
            primitive in reductions or is_expression(primitive) for primitive in node.primitives
        )
    )
    if not fits:
        return None
    shape = broadcast([item.shape for item in operands])
    arrays, inner = _arrays(shape, operands, reductions)
    if arrays is None or arrays.row < LANES or (reductions and arrays.row > LONGEST_ROW):
        return None
    writer = _Writer(arrays, inner, reduces=bool(reductions))
    if not all(map(writer.write, node.primitives)):
        return None
    if not reductions and not writer.spans[-1]:
        return None
    whole = shape if writer.spans[-1] else shape[: len(shape) - inner] + (1,) * inner
    if tuple(node.output_shape) != tuple(whole):
        return None
    output = TensorSpec("y", tuple(node.output_shape), node.primitives[-1].dtype)
    return RowFormula(arrays, tuple(writer.values), output)


def _arrays(
    shape: tuple[int, ...], operands: tuple[TensorSpec, ...], reductions: Sequence[Primitive]
) -> tuple[RowArrays | None, int]:
    """The rows of arrays that broadcast to `shape`, and how many of its axes a row has."""
    columns = [dense_strides(item.shape, len(shape)) for item in operands]
    if not reductions:
        sizes, merged = merged_axes(shape, columns)
        spans = tuple(strides[-1] == 1 for strides in merged)
        if any(strides[-1] > 1 for strides in merged):
            return None, 0
        outer = tuple(strides[:-1] for strides in merged)
        return RowArrays(tuple(sizes[:-1]), sizes[-1], operands, outer, spans), 0
    rank = len(shape)
    counts = {
        1 if primitive.op == "Softmax" else len(primitive["axes"]) for primitive in reductions
    }
    inner = counts.pop()
    if counts or inner > rank:
        return None, 0
    rows = shape[rank - inner :]
    whole = [math.prod(((1,) * rank + item.shape)[-inner:]) for item in operands]
    if any(size not in (1, math.prod(rows)) for size in whole):
        return None, 0
    sizes, merged = merged_axes(shape[: rank - inner], [c[: rank - inner] for c in columns])
    spans = tuple(size > 1 for size in whole)
    return RowArrays(tuple(sizes), math.prod(rows), operands, tuple(merged), spans), inner


class _Writer:
    """A formula under construction.

    ranks and spans are those of the operands and of every primitive's result; places is where each
    of them is among the formula's operands and values.
    """

    def __init__(self, arrays: RowArrays, inner: int, reduces: bool) -> None:
        self.arrays, self.inner, self.reduces = arrays, inner, reduces
        self.ranks = [len(item.shape) for item in arrays.operands]
        self.spans = list(arrays.spans)
        self.places = list(range(len(self.ranks)))
        self.values: list[RowValue] = []

    def write(self, primitive: Primitive) -> bool:
        """Append a primitive; False where it reduces something else than these rows."""
        arguments = [self.places[index] for index in primitive.arguments]
        spans = any(self.spans[index] for index in primitive.arguments)
        rank = max(self.ranks[index] for index in primitive.arguments)
        if primitive.op in _REDUCTIONS:
            axes = (primitive["axis"],) if primitive.op == "Softmax" else primitive["axes"]
            last = tuple(range(rank - self.inner, rank))
            if not spans or tuple(sorted(axis % rank for axis in axes)) != last:
                return False
            place = _REDUCTIONS[primitive.op](self, arguments[0])
            spans = primitive.op == "Softmax"
        else:
            place = self.add(expression(primitive), arguments, spans)
        self.ranks.append(rank)
        self.spans.append(spans)
        self.places.append(place)
        return True

    def add(self, compute: object, arguments: Sequence[int], spans: bool) -> int:
        """Append a value and return its place."""
        return self._append(RowValue(compute, tuple(arguments), spans))

    def reduce(self, join: object, argument: int, neutral: float) -> int:
        """Append what is joined of all elements of a row and return its place."""
        return self._append(RowValue(join, (argument,), False, True, neutral))

    def _append(self, value: RowValue) -> int:
        self.values.append(value)
        return len(self.arrays.operands) + len(self.values) - 1


def _sum(a: Expr, b: Expr, lanes: int) -> Expr:
    return a + b


def _largest(a: Expr, b: Expr, lanes: int) -> Expr:
    """The larger of two numbers; a NaN may be passed over."""
    return T.Select(a > b, a, b)


def _larger(largest: Expr, x: Expr, lanes: int) -> Expr:
    """The larger one; an x that is NaN is passed over."""
    return T.Select(x > largest, x, largest)


def _power(x: Expr, largest: Expr, lanes: int) -> Expr:
    return vector_functions.exp(x - largest, lanes)


def _quotient(a: Expr, b: Expr, lanes: int) -> Expr:
    return a / b


def _softmax(writer: _Writer, x: int) -> int:
    """NaN anywhere in a row is in its sum, so that the maximum need not keep it."""
    largest = writer.reduce(_largest, x, -math.inf)
    power = writer.add(_power, (x, largest), True)
    return writer.add(_quotient, (power, writer.reduce(_sum, power, 0.0)), True)


def _mean(writer: _Writer, x: int) -> int:
    count = float(writer.arrays.row)

    def divided(total: Expr, lanes: int) -> Expr:
        return total / splat(T.float32(count), lanes)

    return writer.add(divided, (writer.reduce(_sum, x, 0.0),), False)


def _total(writer: _Writer, x: int) -> int:
    return writer.reduce(_sum, x, 0.0)


def _most(writer: _Writer, x: int) -> int:
    return writer.reduce(_larger, x, -math.inf)


_REDUCTIONS = {
    "Softmax": _softmax,
    "ReduceMean": _mean,
    "ReduceMax": _most,
    "ReduceSum": _total,
}
