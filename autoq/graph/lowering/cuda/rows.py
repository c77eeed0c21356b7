"""Fusions that reduce rows as CUDA: softmax, means, and the element-wise primitives around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autoq.graph.ir import Fusion, Primitive
from autoq.graph.lowering.cuda.byte_normalisation import byte_normalisation
from autoq.graph.lowering.cuda.byte_softmax import byte_softmax
from autoq.graph.lowering.cuda.expressions import (
    HELPERS,
    READ,
    divided,
    expression,
    is_expression,
    output_bounds,
    times,
    zero_points,
)
from autoq.graph.lowering.exact_quotient import split_reciprocal
from autoq.graph.shapes import broadcast
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.movement.row_formula import RowFormula, RowValue
from autoq.templates.cuda.movement.rows_plan import LONGEST_ROW, RowArrays

_MOST_OPERANDS = 12
_MOST_PRIMITIVES = 64

_SOURCE = r"""
// A power of two that moves a row's divisor to where its reciprocal neither over- nor underflows.
__device__ __forceinline__ float shift(float divisor) {
  const float size = fabsf(divisor);
  return size < 0x1p-100f ? 0x1p64f : size > 0x1p100f ? 0x1p-64f : 1.f;
}
// 1 / divisor in two parts of one sign: a float that is a little smaller and what is missing from
// it. Both are the same 0, infinity or NaN where the divisor is none that has a reciprocal.
__device__ __forceinline__ float large_part(float divisor) {
  float near;  // within an ulp
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(divisor));
  return __fmul_rn(near, 1.f - 0x1p-21f);
}
__device__ __forceinline__ float small_part(float divisor, float large) {
  const float rest = __fmaf_rn(-large, divisor, 1.f);
  return rest == rest ? __fmul_rn(rest, large) : large;
}
"""


@dataclass(frozen=True)
class RowFusion:
    """A fusion as a formula over the rows of its arrays."""

    arrays: RowArrays
    formula: RowFormula


def row_fusion(node: Fusion) -> RowFusion | None:
    """The fusion for one row, None where nothing reduces rows, or something else is in the way.

    Rows are the last axes. All reductions are over the same of them, arrays hold bytes or floats
    and each has all elements of a row or one, and rows are not longer than LONGEST_ROW.
    """
    constants = [(array.shape, str(array.dtype)) for array in node.constants]
    arrays = [*zip(node.input_shapes, node.input_dtypes, strict=True), *constants]
    operands = tuple(TensorSpec(f"x{i}", shape, dtype) for i, (shape, dtype) in enumerate(arrays))
    inner = _reduced_axes(node.primitives)
    fits = (
        inner > 0
        and 0 < len(operands) <= _MOST_OPERANDS
        and len(node.primitives) <= _MOST_PRIMITIVES
        and all(item.dtype in READ for item in operands)
        and node.primitives[-1].dtype in READ
        and all(
            primitive.op in _REDUCTIONS or is_expression(primitive) for primitive in node.primitives
        )
    )
    if not fits:
        return None
    shape = broadcast([item.shape for item in operands])
    rows = RowArrays(shape, inner, operands, len(node.constants))
    held = inner <= len(shape) and 1 < rows.row <= LONGEST_ROW
    if not held or not 0 < math.prod(shape) < 1 << 31:
        return None
    formula = byte_softmax(operands[0].dtype, len(shape), node.primitives)
    formula = formula or byte_normalisation(rows, node.primitives)
    if formula is not None and shape == tuple(node.output_shape):
        return RowFusion(rows, formula)
    writer = _Writer(rows, node.primitives, zero_points(node.primitives, len(operands)))
    last = len(node.primitives) - 1
    written = all(
        writer.write(primitive, index == last) for index, primitive in enumerate(node.primitives)
    )
    if not written or not writer.ends_with(node.output_shape):
        return None
    return RowFusion(rows, writer.formula(node.primitives[-1]))


def _reduced_axes(primitives: Sequence[Primitive]) -> int:
    """How many axes every reduction takes, 0 without reductions or where they differ."""
    counts = {1 if primitive.op == "Softmax" else len(primitive["axes"])
              for primitive in primitives if primitive.op in _REDUCTIONS}  # fmt: skip
    return counts.pop() if len(counts) == 1 else 0


@dataclass
class _Writer:
    """A formula under construction.

    shapes: those of the operands and of every primitive's result; places: where each of them is
    among the formula's operands and values.
    """

    arrays: RowArrays
    primitives: Sequence[Primitive]
    taken: tuple[float, ...]
    shapes: list[tuple[int, ...]] = field(init=False)
    places: list[int] = field(init=False)
    values: list[RowValue] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shapes = [tuple(item.shape) for item in self.arrays.operands]
        self.places = list(range(len(self.shapes)))

    def write(self, primitive: Primitive, last: bool) -> bool:
        """Append a primitive; False where it is no primitive over these rows.

        The rounding of a quantisation that comes last is left to the store.
        """
        shapes = [self.shapes[index] for index in primitive.arguments]
        shape = broadcast(shapes)
        if primitive.op in _REDUCTIONS:
            if not self._reduces_rows(primitive, shape):
                return False
            place = _REDUCTIONS[primitive.op](self, self.places[primitive.arguments[0]])
            shape = shape if primitive.op == "Softmax" else self._row_shape(shape)
        else:
            place = self._computed(primitive, self._spans(shape), last)
        self.shapes.append(shape)
        self.places.append(place)
        return all(map(self._fits, [*shapes, shape]))

    def formula(self, last: Primitive) -> RowFormula:
        """The whole formula; the last primitive's rounding is that of the store."""
        bounds = output_bounds(last)
        source = HELPERS + _SOURCE
        return RowFormula(source, tuple(self.values), self.taken, last.dtype, *bounds)

    def add(self, expression: str, arguments: tuple[int, ...], spans: bool = False) -> int:
        """Append a value of expression {0}, {1}, ... and return its place."""
        self.values.append(RowValue(expression, arguments, spans))
        return len(self.taken) + len(self.values) - 1

    def reduce(self, join: str, argument: int) -> int:
        """Append what is joined of all elements of a row and return its place.

        A kernel joins values of its own for each row: an operand of one row becomes such values.
        """
        if argument < len(self.taken) and not self.arrays.varies(argument):
            argument = self.add("{0}", (argument,), True)
        self.values.append(RowValue(join, (argument,), False, True))
        return len(self.taken) + len(self.values) - 1

    def divided(self, x: int, divisor: int) -> int:
        """x over a divisor of each row whose reciprocal is found once a row, within an ulp."""
        large = self.add("large_part({0})", (divisor,))
        small = self.add("small_part({0}, {1})", (divisor, large))
        return self.add("times({0}, {1}, {2})", (x, large, small), True)

    def op_of(self, index: int) -> str:
        """What computes value `index`, nothing if it is an operand."""
        return self.primitives[index - len(self.taken)].op if index >= len(self.taken) else ""

    def ends_with(self, shape: tuple[int, ...]) -> bool:
        """Whether the last primitive's result is of `shape` and holds all rows."""
        whole = self.arrays.shape
        return self.shapes[-1] == tuple(shape) and shape in (whole, self._row_shape(whole))

    def _computed(self, primitive: Primitive, spans: bool, last: bool) -> int:
        names = [""] * len(self.places)
        for position, index in enumerate(primitive.arguments):
            names[index] = names[index] or f"{{{position}}}"
        arguments = tuple(self.places[index] for index in primitive.arguments)
        if primitive.op == "Div" and spans and not self._spans(self.shapes[primitive.arguments[1]]):
            # A square root of a float is 0, infinite, NaN, or far from both ends of the range.
            rooted = self.op_of(primitive.arguments[1]) == "Sqrt"
            return (self.divided if rooted else self._divided_by_any)(*arguments)
        if last and primitive.op == "quantize":
            return self.add(divided(primitive, names[primitive.arguments[0]]), arguments, spans)
        return self.add(expression(primitive, names, self.taken), arguments, spans)

    def _divided_by_any(self, x: int, divisor: int) -> int:
        """x over a value that a row has one of, moved where its reciprocal would not be exact."""
        shift = self.add("shift({0})", (divisor,))
        moved = self.add("__fmul_rn({0}, {1})", (divisor, shift))
        return self.divided(self.add("__fmul_rn({0}, {1})", (x, shift), True), moved)

    def _reduces_rows(self, primitive: Primitive, shape: tuple[int, ...]) -> bool:
        rank, inner = len(shape), self.arrays.inner
        axes = (primitive["axis"],) if primitive.op == "Softmax" else primitive["axes"]
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


def _softmax(writer: _Writer, x: int) -> int:
    """NaN anywhere in a row is in its sum, so that the maximum need not keep it."""
    largest = writer.reduce("Largest", x)
    power = writer.add("expf(__fsub_rn({0}, {1}))", (x, largest), True)
    return writer.divided(power, writer.reduce("Sum", power))


def _mean(writer: _Writer, x: int) -> int:
    total = writer.reduce("Sum", x)
    return writer.add(times("{0}", split_reciprocal(np.float32(writer.arrays.row))), (total,))


def _sum(writer: _Writer, x: int) -> int:
    return writer.add("{0}", (writer.reduce("Sum", x),))


def _most(writer: _Writer, x: int) -> int:
    """A kernel stores a value that is computed of what it joins."""
    return writer.add("{0}", (writer.reduce("Largest", x),))


_REDUCTIONS = {"Softmax": _softmax, "ReduceMean": _mean, "ReduceMax": _most, "ReduceSum": _sum}
