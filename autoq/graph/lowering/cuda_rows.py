"""Operators that reduce rows as CUDA: softmax, means, and the element-wise steps around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from autoq.graph.ir import Operator, Step
from autoq.graph.lowering.cuda_expressions import (
    HELPERS,
    READ,
    divided,
    expression,
    is_expression,
    output_bounds,
    zero_points,
)
from autoq.graph.shapes import broadcast
from autoq.templates.cuda.movement.elementwise import float_literal
from autoq.templates.cuda.movement.rows import RowProgram, RowValue
from autoq.templates.cuda.movement.rows_plan import LONGEST_ROW, RowArrays
from autoq.templates.tensor_spec import TensorSpec

_MOST_OPERANDS = 8
_MOST_STEPS = 64

_SOURCE = r"""
// part / total of a part that is no larger, within an ulp.
__device__ __forceinline__ float share(float part, float total, float reciprocal) {
  const float rough = __fmul_rn(part, reciprocal);
  return __fmaf_rn(__fmaf_rn(-rough, total, part), reciprocal, rough);
}
// A power of two that moves a row's divisor to where its reciprocal neither over- nor underflows.
__device__ __forceinline__ float shift(float divisor) {
  const float size = fabsf(divisor);
  return size < 0x1p-100f ? 0x1p64f : size > 0x1p100f ? 0x1p-64f : 1.f;
}
// x / divisor within an ulp. Where there is no remainder, the product is what division gives.
__device__ __forceinline__ float over(float x, float divisor, float reciprocal) {
  const float rough = __fmul_rn(x, reciprocal);
  const float near = __fmaf_rn(__fmaf_rn(-rough, divisor, x), reciprocal, rough);
  return near == near ? near : rough;
}
"""


@dataclass(frozen=True)
class RowOperator:
    """An operator as a program over the rows of its arrays."""

    arrays: RowArrays
    program: RowProgram


def row_operator(node: Operator) -> RowOperator | None:
    """The operator for one row, None where no step reduces rows, or something else is in the way.

    Rows are the last axes. All reductions are over the same of them, arrays hold bytes or float32
    and each has all elements of a row or one, and rows are not longer than LONGEST_ROW.
    """
    constants = [(array.shape, str(array.dtype)) for array in node.constants]
    arrays = [*zip(node.input_shapes, node.input_dtypes, strict=True), *constants]
    operands = tuple(TensorSpec(f"x{i}", shape, dtype) for i, (shape, dtype) in enumerate(arrays))
    inner = _reduced_axes(node.steps)
    fits = (
        inner > 0
        and 0 < len(operands) <= _MOST_OPERANDS
        and len(node.steps) <= _MOST_STEPS
        and all(item.dtype in READ for item in operands)
        and node.steps[-1].dtype in READ
        and all(step.op in _REDUCTIONS or is_expression(step) for step in node.steps)
    )
    if not fits:
        return None
    shape = broadcast([item.shape for item in operands])
    rows = RowArrays(shape, inner, operands)
    held = inner <= len(shape) and 1 < rows.row <= LONGEST_ROW
    if not held or not 0 < math.prod(shape) < 1 << 31:
        return None
    writer = _Writer(rows, zero_points(node.steps, len(operands)))
    last = len(node.steps) - 1
    written = all(writer.write(step, index == last) for index, step in enumerate(node.steps))
    if not written or not writer.ends_with(node.output_shape):
        return None
    return RowOperator(rows, writer.program(node.steps[-1]))


def _reduced_axes(steps: Sequence[Step]) -> int:
    """How many axes every reduction takes, 0 without reductions or where they differ."""
    counts = {1 if step.op == "Softmax" else len(step["axes"])
              for step in steps if step.op in _REDUCTIONS}  # fmt: skip
    return counts.pop() if len(counts) == 1 else 0


@dataclass
class _Writer:
    """A program under construction.

    shapes: those of the operands and of every step's result; places: where each of them is among
    the program's operands and values.
    """

    arrays: RowArrays
    taken: tuple[float, ...]
    shapes: list[tuple[int, ...]] = field(init=False)
    places: list[int] = field(init=False)
    values: list[RowValue] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shapes = [tuple(item.shape) for item in self.arrays.operands]
        self.places = list(range(len(self.shapes)))

    def write(self, step: Step, last: bool) -> bool:
        """Append a step; False where it is no step over these rows.

        The rounding of a quantisation that comes last is left to the store.
        """
        shapes = [self.shapes[index] for index in step.arguments]
        shape = broadcast(shapes)
        if step.op in _REDUCTIONS:
            if not self._reduces_rows(step, shape):
                return False
            place = _REDUCTIONS[step.op](self, step, self.places[step.arguments[0]])
            shape = shape if step.op == "Softmax" else self._row_shape(shape)
        else:
            place = self._computed(step, self._spans(shape), last)
        self.shapes.append(shape)
        self.places.append(place)
        return all(map(self._fits, [*shapes, shape]))

    def program(self, last: Step) -> RowProgram:
        """The whole program; the last step's rounding is that of the store."""
        bounds = output_bounds(last)
        source = HELPERS + _SOURCE
        return RowProgram(source, tuple(self.values), self.taken, last.dtype, *bounds)

    def add(self, expression: str, arguments: tuple[int, ...], spans: bool = False) -> int:
        """Append a value of expression {0}, {1}, ... and return its place."""
        self.values.append(RowValue(expression, arguments, spans))
        return len(self.taken) + len(self.values) - 1

    def reduce(self, join: str, argument: int) -> int:
        """Append what is joined of all elements of a row and return its place."""
        self.values.append(RowValue(join, (argument,), False, True))
        return len(self.taken) + len(self.values) - 1

    def ends_with(self, shape: tuple[int, ...]) -> bool:
        """Whether the last step's result is of `shape` and holds all rows."""
        whole = self.arrays.shape
        return self.shapes[-1] == tuple(shape) and shape in (whole, self._row_shape(whole))

    def _computed(self, step: Step, spans: bool, last: bool) -> int:
        names = [""] * len(self.places)
        for position, index in enumerate(step.arguments):
            names[index] = names[index] or f"{{{position}}}"
        arguments = tuple(self.places[index] for index in step.arguments)
        if step.op == "Div" and spans and not self._spans(self.shapes[step.arguments[1]]):
            return self._divided_by_one_a_row(*arguments)
        if last and step.op == "quantize":
            return self.add(divided(step, names[step.arguments[0]]), arguments, spans)
        return self.add(expression(step, names, self.taken), arguments, spans)

    def _divided_by_one_a_row(self, x: int, divisor: int) -> int:
        """x over a value that a row has one of, so that its reciprocal is found once a row."""
        shift = self.add("shift({0})", (divisor,))
        moved = self.add("__fmul_rn({0}, {1})", (divisor, shift))
        reciprocal = self.add("__fdiv_rn(1.f, {0})", (moved,))
        return self.add("over(__fmul_rn({0}, {1}), {2}, {3})", (x, shift, moved, reciprocal), True)

    def _reduces_rows(self, step: Step, shape: tuple[int, ...]) -> bool:
        rank, inner = len(shape), self.arrays.inner
        axes = (step["axis"],) if step.op == "Softmax" else step["axes"]
        last = tuple(sorted(axis % rank for axis in axes)) == tuple(range(rank - inner, rank))
        return last and self._spans(shape)

    def _inner(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        inner = self.arrays.inner
        return ((1,) * inner + shape)[-inner:]

    def _spans(self, shape: tuple[int, ...]) -> bool:
        return math.prod(self._inner(shape)) > 1

    def _fits(self, shape: tuple[int, ...]) -> bool:
        """Whether a value has all elements of a row or one."""
        return self._inner(shape) == self._inner(self.arrays.shape) or not self._spans(shape)

    def _row_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[: len(shape) - self.arrays.inner] + (1,) * self.arrays.inner


def _softmax(writer: _Writer, step: Step, x: int) -> int:
    """NaN anywhere in a row is in its sum, so that the maximum need not keep it."""
    largest = writer.reduce("Largest", x)
    power = writer.add("expf(__fsub_rn({0}, {1}))", (x, largest), True)
    total = writer.reduce("Sum", power)
    reciprocal = writer.add("__fdiv_rn(1.f, {0})", (total,))
    return writer.add("share({0}, {1}, {2})", (power, total, reciprocal), True)


def _mean(writer: _Writer, step: Step, x: int) -> int:
    total = writer.reduce("Sum", x)
    return writer.add(f"__fdiv_rn({{0}}, {float_literal(writer.arrays.row)})", (total,))


_REDUCTIONS = {"Softmax": _softmax, "ReduceMean": _mean}
