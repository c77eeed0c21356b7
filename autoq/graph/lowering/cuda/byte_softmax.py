"""Softmax from bytes to bytes as CUDA, in the five instructions an element that bytes allow.

What all of a row is multiplied by is in its sum as well. Where no byte's power over- or underflows
neither the row's maximum nor the zero point has to be known, and the byte as it is read, a float of
2^23 and more, is turned into an exponent by one fused product, whose rounding is no larger than
that of a dequantised value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autoq.graph.ir import Primitive
from autoq.graph.lowering.cuda.expressions import output_bounds
from autoq.templates.cuda.movement.elementwise import float_literal
from autoq.templates.cuda.movement.row_formula import ROUNDS, RowFormula, RowValue

_MOST_EXPONENT = 100
"""Size of powers of two, of which float32 holds a row's sum and its reciprocal."""
_LEAST_SCALE = 2.0**-13
"""The least scale of the output, with which a quotient is far below ROUNDS."""
_BIAS = {"uint8": 2.0**23, "int8": 2.0**23 + 128}
"""What is added to a byte to read it as a float."""

_SOURCE = r"""
__device__ __forceinline__ float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}
__device__ __forceinline__ float reciprocal(float total) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(total));
  return result;
}
"""


def byte_softmax(dtype: str, rank: int, primitives: Sequence[Primitive]) -> RowFormula | None:
    """The formula of `primitives` over one operand, None where they are something else.

    Rows lie along the last of `rank` axes.

    A result differs from exact arithmetic's, as every sum of a row does, only beside a tie.
    """
    if dtype not in _BIAS or [primitive.op for primitive in primitives] != [
        "dequantize",
        "Softmax",
        "quantize",
    ]:
        return None
    first, softmax, last = primitives
    if softmax["axis"] % rank != rank - 1:
        return None
    factor = float(np.float32(first["scale"] * math.log2(math.e)))
    scale = np.float32(last["scale"])
    if not (256 * factor <= _MOST_EXPONENT and _LEAST_SCALE <= scale <= 1 and last["low"] <= 0):
        return None
    offset = float_literal(-(_BIAS[dtype] + first["zero_point"]) * factor)
    exponent = f"__fmaf_rn({{0}}, {float_literal(factor)}, {offset})"
    rounded = f"__fmaf_rn({{0}}, {{1}}, {float_literal(ROUNDS)})"
    if round(1.0001 / float(scale)) > last["high"]:
        rounded = f"fminf({rounded}, {float_literal(ROUNDS + last['high'])})"
    values = (
        RowValue(f"power_of_two({exponent})", (0,), True),
        RowValue("Sum", (1,), False, True),
        RowValue(f"reciprocal(__fmul_rn({{0}}, {float_literal(scale)}))", (2,), False),
        RowValue(rounded, (1, 3), True),
    )
    # Nothing is left of the bias to take away when a byte is read.
    return RowFormula(_SOURCE, values, (-_BIAS[dtype],), last.dtype, *output_bounds(last), True)
