"""Layer normalisation from bytes to bytes as CUDA, in the few instructions that bytes allow.

The scale of a row falls out of `(x - mean) / sqrt(variance + epsilon)` but for epsilon, so that
bytes are normalised as the whole numbers that they are, less no zero point. Sums of bytes and of
their squares are exact and take two instructions for four bytes, so that the variance needs no
second pass behind the mean. The step of the output divides what a row is multiplied by, and the
offsets of columns, instead of every element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autoq.graph.ir import Primitive
from autoq.graph.lowering.cuda.expressions import output_bounds
from autoq.templates.cuda.movement.row_formula import BYTE_SHARE, ROUNDS, RowFormula, RowValue
from autoq.templates.cuda.movement.rows_plan import RowArrays
from autoq.templates.cuda.movement.written_values import float_literal

_SOURCE = r"""
__device__ __forceinline__ float reciprocal_root(float variance) {
  float root;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(variance));
  return root;
}
"""
_SHARE = 2.0**-24
"""What unsigned bytes are multiplied by, exactly (`row_formula.BYTE_SHARE`), as is what follows."""
_LARGEST_STEP = 2.0**40
"""The largest scale and reciprocal of one: their squares are far from both ends of float32's
range."""


def byte_normalisation(arrays: RowArrays, primitives: Sequence[Primitive]) -> RowFormula | None:
    """The formula of `primitives` over the rows of `arrays`, None where they are something else.

    It may end with the bytes or with the floats that they stand for. A result differs from exact
    arithmetic's, as every sum of a row does, only beside a tie.
    """
    count, floats = len(arrays.operands), primitives[-1]
    last = primitives[-2] if floats.op == "dequantize" and len(primitives) > 1 else floats
    ends = floats is last or floats.arguments == (count + len(primitives) - 2,)
    found = _Parts.of(arrays, primitives[: len(primitives) - (floats is not last)])
    if found is None or not ends:
        return None
    first = found.dequantise
    scale, step = float(np.float32(first["scale"])), float(np.float32(last["scale"]))
    if not all(1 / _LARGEST_STEP < each < _LARGEST_STEP for each in (scale, step)):
        return None
    unsigned = arrays.operands[found.x].dtype == "uint8"
    shares = (RowValue(BYTE_SHARE, (found.x,), True),) if unsigned else ()
    unit = _SHARE if unsigned else 1.0
    total, mean, spread, root, x = range(count, count + 5)
    rest, offset = range(x + len(shares), x + len(shares) + 2)
    epsilon = f"__fmul_rn({{1}}, {float_literal(1 / scale**2)})"
    variance = f"__fmaf_rn({{0}}, {float_literal(1 / arrays.row**2)}, {epsilon})"
    in_steps = float_literal(1 / step)
    of_rest = float_literal(1 / step / unit)
    values = (
        RowValue("Total", (found.x,), False, True),
        RowValue(f"__fmul_rn({{0}}, {float_literal(unit / arrays.row)})", (total,), False),
        RowValue("Spread", (found.x, total), False, True),
        RowValue(
            f"__fmul_rn(reciprocal_root({variance}), {of_rest})", (spread, found.epsilon), False
        ),
        *shares,
        RowValue("__fsub_rn({0}, {1})", (x if shares else found.x, mean), True),
        RowValue(f"__fmul_rn({{0}}, {in_steps})", (found.offset,), True),
        RowValue(
            "__fmaf_rn(__fmul_rn({0}, {1}), {2}, {3})", (rest, root, found.factor, offset), True
        ),
    )
    if floats is last:
        return RowFormula(_SOURCE, values, (0.0,) * count, last.dtype, *output_bounds(last))
    low, high, zero_point = output_bounds(last)
    shift = float_literal(zero_point - floats["zero_point"] - ROUNDS)
    within = f"clamped({{0}}, {float_literal(low)}, {float_literal(high)})"
    whole = f"__fadd_rn(__fadd_rn({within}, {float_literal(ROUNDS)}), {shift})"
    real = RowValue(
        f"__fmul_rn({whole}, {float_literal(floats['scale'])})", (count + len(values) - 1,), True
    )
    return RowFormula(_SOURCE, (*values, real), (0.0,) * count, "float32")


@dataclass(frozen=True)
class _Parts:
    """The operands of a normalisation, by their places, and what makes numbers of its bytes."""

    x: int
    epsilon: int
    factor: int
    offset: int
    dequantise: Primitive

    @classmethod
    def of(cls, arrays: RowArrays, primitives: Sequence[Primitive]) -> _Parts | None:
        """Those of `quantise((x - mean) / sqrt(mean((x - mean)^2) + epsilon) * factor + offset)`.

        x is dequantised bytes of several rows; factor and offset are constants of columns.
        """
        search = _Search(arrays, primitives)
        try:
            return search.parts()
        except _OtherFormula:
            return None


class _OtherFormula(Exception):
    """Primitives that are no normalisation of bytes."""


class _Search:
    """Walks from the last primitive to the operands."""

    def __init__(self, arrays: RowArrays, primitives: Sequence[Primitive]) -> None:
        self.arrays = arrays
        self.primitives = primitives
        self.count = len(arrays.operands)
        self.used: set[int] = set()

    def parts(self) -> _Parts:
        (scaled,) = self.arguments(self.count + len(self.primitives) - 1, "quantize")
        product, offset = self.with_operand(scaled, "Add", self.is_of_columns)
        quotient, factor = self.with_operand(product, "Mul", self.is_of_columns)
        rest, root = self.arguments(quotient, "Div")
        (moved,) = self.arguments(root, "Sqrt")
        variance, epsilon = self.with_operand(moved, "Add", self.is_one_number)
        square = self.averaged(variance)
        if self.arguments(square, "Mul") != (rest, rest):
            raise _OtherFormula
        value, mean = self.arguments(rest, "Sub")
        averaged = self.averaged(mean)
        (x,), (same,) = self.arguments(value, "dequantize"), self.arguments(averaged, "dequantize")
        first, second = (self.primitives[place - self.count] for place in (value, averaged))
        alike = dict(first.attributes) == dict(second.attributes) and x == same
        bytes_of_rows = (
            x < self.count
            and self.arrays.operands[x].dtype in ("int8", "uint8")
            and tuple(self.arrays.operands[x].shape) == tuple(self.arrays.shape)
            and self.arrays.varies(x)
        )
        whole = len(self.used) == len(self.primitives)
        if not (
            alike and bytes_of_rows and whole and self.primitives[-1].dtype in ("int8", "uint8")
        ):
            raise _OtherFormula
        return _Parts(x, epsilon, factor, offset, first)

    def arguments(self, place: int, op: str) -> tuple[int, ...]:
        """The arguments of what computes `place`, which is to be `op`."""
        if place < self.count or self.primitives[place - self.count].op != op:
            raise _OtherFormula
        self.used.add(place)
        return self.primitives[place - self.count].arguments

    def averaged(self, place: int) -> int:
        """What `place` is the mean of, over the rows."""
        (value,) = self.arguments(place, "ReduceMean")
        rank, inner = len(self.arrays.shape), self.arrays.inner
        axes = sorted(axis % rank for axis in self.primitives[place - self.count]["axes"])
        if axes != list(range(rank - inner, rank)):
            raise _OtherFormula
        return value

    def with_operand(self, place: int, op: str, fits: Callable[[int], bool]) -> tuple[int, int]:
        """What a sum or a product computes, and the operand that it is joined with."""
        arguments = self.arguments(place, op)
        for value, operand in (arguments, arguments[::-1]) if len(arguments) == 2 else ():
            if value >= self.count > operand and fits(operand):
                return value, operand
        raise _OtherFormula

    def is_of_columns(self, operand: int) -> bool:
        """Whether an operand is floats that all rows share."""
        found = self.arrays.operands[operand]
        shared = self.arrays.spans(operand) and not self.arrays.varies(operand)
        return found.dtype == "float32" and shared

    def is_one_number(self, operand: int) -> bool:
        """Whether an operand is one float."""
        found = self.arrays.operands[operand]
        return found.dtype == "float32" and math.prod(found.shape) == 1
