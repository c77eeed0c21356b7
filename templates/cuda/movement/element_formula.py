"""What an element-wise kernel computes of an element, and CUDA of vectors of elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from autoq.templates.cuda.movement.elementwise_walk import Walk


class Quantised(Protocol):
    """How a formula's output becomes integers."""

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def zero_point(self) -> float: ...


@dataclass(frozen=True)
class Parts:
    """Where operands begin along the rows of the output, of which some have a part only.

    begins and extents: an operand's first row and its rows; whole: rows of the output, 0 where no
    operand is a part; axis: of the output, which has them.
    """

    begins: tuple[int, ...]
    extents: tuple[int, ...]
    whole: int = 0
    axis: int = 0

    @classmethod
    def of_none(cls, operands: int) -> Parts:
        """The parts of a formula whose operands broadcast to the output."""
        return cls((0,) * operands, (1,) * operands)

    def walk(self, shape: tuple[int, ...], operands: Sequence[tuple[int, ...]], lanes: int) -> Walk:
        """`Walk.over`, of which the rows are those of the output where some operands are parts."""
        if not self.whole:
            return Walk.over(shape, operands, lanes)
        rows = tuple(size if axis == self.axis else 1 for axis, size in enumerate(shape))
        found = Walk.over(shape, [*operands, rows], lanes)
        return dataclasses.replace(found, strides=found.strides[:-1])

    def row(self, operand: int, row: str) -> str:
        """The row of an operand that is read for one of the output, the next one beside a part."""
        begin, extent = self.begins[operand], self.extents[operand]
        if not self.whole or extent in (1, self.whole):
            return row
        return f"min(max({row} - {begin}, 0), {extent - 1})"


@dataclass(frozen=True)
class ElementFormula:
    """What is computed for one element.

    source: CUDA functions, among them `float element(float x0, float x1, ...)` of one operand
    each, less that operand's entry in zero_points, and the output's row last where some operands
    are `parts` of it. An integer output is `clamp(rint(element), low, high) + zero_point` with
    whole bounds, an output of float32 or float16 the element itself.
    """

    source: str
    zero_points: tuple[float, ...]
    out_dtype: str
    low: float = 0.0
    high: float = 0.0
    zero_point: float = 0.0
    parts: Parts | None = None


VECTOR = r"""
// N values of an operand, or one that stands for all of them.
template <class X, int N, bool WHOLE> struct Vector {
  static constexpr int COUNT = WHOLE ? N : 1;
  Raw<X, COUNT> raw;
  __device__ __forceinline__ void read(From<X> x, int at) { raw = load<X, COUNT>(x + at); }
  __device__ __forceinline__ float value(int i, float zero_point) const {
    return number<X, COUNT>(raw, WHOLE ? i : 0, zero<X>(zero_point));
  }
};
"""

WRITE = r"""
template <int N> __device__ __forceinline__ void write(
    To<OUT> y, int at, const float (&value)[N]) {
  if constexpr (BITS<OUT> == 32) {
    Raw<OUT, N> raw;
    #pragma unroll
    for (int i = 0; i < N; ++i) raw.word[i] = __float_as_uint(value[i]);
    store<OUT, N>(y + at, raw);
  } else if constexpr (IS_HALF<OUT>) {
    store<OUT, N>(y + at, halves<N>(value));
  } else if constexpr (IS_BRAIN<OUT>) {
    store<OUT, N>(y + at, brains<N>(value));
  } else {
    store<OUT, N>(y + at, quantise<OUT, N>(value, LOW, HIGH, ZERO_POINT));
  }
}
"""
"""CUDA of write<N>(y, at, values): N neighbouring outputs, rounded, and clamped if integers."""


def float_literal(value: float) -> str:
    """A finite number in C++, rounded to float32."""
    return f"{float(np.float32(value)).hex()}f"


def bounds(formula: Quantised) -> str:
    """C++ constants LOW, HIGH and ZERO_POINT of a formula's output."""
    names = {"LOW": formula.low, "HIGH": formula.high, "ZERO_POINT": formula.zero_point}
    return "".join(
        f"constexpr float {name} = {float_literal(value)};\n" for name, value in names.items()
    )
