"""The CUDA emitter of requantisation: accumulators, wherever they lie, to words of outputs.

A form is a way to round and to clamp; all forms give the same bits for the operands that they are
for. Which registers hold the values is the business of `fragment_rows.py`, `shuffled_rows.py`,
`columns.py` and `thread_epilogue.py`, which pass expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.epilogue import FLOAT_OUTPUTS, Epilogue
from autoq.templates.epilogue.cuda.short_forms.words import (
    ABOVE_FIRST,
    BOUNDED,
    CONVERTED,
    ONE_SCALE,
    READ,
    with_numbers,
)
from autoq.templates.epilogue.cuda.values.activations import activation_source
from autoq.templates.epilogue.cuda.values.elements import (
    BYTES4,
    CLAMPED,
    NARROW8,
    SCALED,
    SCALED_READ,
    SHIFTED,
    addend_source,
    flip,
    for_residual,
    narrowing_source,
    rescaled_source,
    saturated_source,
)
from autoq.templates.epilogue.cuda.values.lookup_source import (
    looked_up,
    lookup_source,
    read_lookup_source,
)


class Form(IntEnum):
    """How values become outputs.

    The first three are for bytes without a residual: kernels tell them apart by the bounds alone
    and hold the code of all.
    """

    PACK = 0
    """The bounds are the type's own and the zero point is 0: a saturating conversion does all."""
    SHIFT = 1
    """The bounds are the type's own."""
    CLAMP = 2
    """Any bounds: minima and maxima before rounding, which never reorder values, integral ones."""
    ANY = 3
    """Any epilogue and operands: 9 instructions for an output, 19 with a requantised residual."""
    BOUNDED = 4
    """Where `bounds.py` proves the values small: 5 and 13 instructions (SASS of sm_90a).

    A rounded value v + 1.5 * 2**23 is offset and clamped as the integer it is by one instruction;
    the other bound is the saturation of the pack. A clamped integer u read as a float is the
    denormal u * 2**-149, which one fma by 2**127 makes the normal number (u + low) * 2**-22,
    exactly.
    """
    CONVERTED = 5
    """Where `conversion.py` proves the roundings: 2.5 and 8 instructions."""
    ONE_SCALE = 6
    """Of a `uniform` epilogue, where `one_scale.py` proves the steps: 1.5 instructions."""
    UNIFORM = 7
    """Of a `uniform` epilogue, whatever its scale: 2.5 instructions."""
    READ = 8
    """Where `read_sums.py` proves the bounds, no residual: 3.75 instructions, 5.75 by a table."""


OF_ONE_SCALE = (Form.ONE_SCALE, Form.UNIFORM)
"""Forms that read one scale for all channels, from the words `limits`."""

SHORT = (Form.BOUNDED, Form.CONVERTED, Form.READ, *OF_ONE_SCALE)
"""Forms for accumulators that hold their bias, and operands that were looked at when packed."""


_QUANTISED4 = r"""
__device__ __forceinline__ float rounded_@(float v, float4 second) {
  return __fadd_rn(clamped_@(v, second.y, second.z), 12582912.f);
}
__device__ __forceinline__ unsigned rounded2_@(float a, float b) {
  return bytes2_@(__float_as_uint(a), __float_as_uint(b));
}
__device__ __forceinline__ unsigned quantised4_@(float a, float b, float c, float d,
                                                 float4 second) {
  a = rounded_@(a, second), b = rounded_@(b, second);
  c = rounded_@(c, second), d = rounded_@(d, second);
  const unsigned ab = rounded2_@(a, b), cd = rounded2_@(c, d);
  return bytes4_@(ab, cd, last_byte_@(second.w));
}
__device__ __forceinline__ float bounded_@(float v, float4 second) {
  return v != v ? v : clamped_@(v, second.y, second.z);
}
"""

_BOUNDED = r"""
__device__ __forceinline__ int value_@(int total, float scale, float addend,
                                       const float* limits) {
  float v = scaled_@(total, scale);
  if (BEFORE) {
    int r = __float_as_int(__fadd_rn(v, 12582912.f));
    r = __viaddmin_s32_relu(r, number.accumulator_offset, number.accumulator_span);
    v = __fmul_rn(__fmaf_rn(__int_as_float(r), 0x1p127f, number.accumulator_origin),
                  number.accumulator_scale);
  }
  if (RESIDUAL) v = __fadd_rn(v, __fmul_rn(addend, number.residual_scale));
  int r = __float_as_int(__fadd_rn(v, 12582912.f));
  return __viaddmax_s32(r, number.output_offset, number.least_output);
}
"""

_CONVERTED = r"""
__device__ __forceinline__ float value_@(int total, float scale, float addend,
                                         const float* limits) {
  const float v = scaled_@(total, scale);
  if (!RESIDUAL) return v;
  const float t = __saturatef(__fmaf_rn(__fadd_rn(v, number.start), number.share, number.origin));
  return __fmaf_rn(t, number.scale, __fmaf_rn(addend, number.residual_scale, number.offset));
}
"""

_READ = r"""
__device__ __forceinline__ int value_@(int total, float scale, float addend,
                                       const float* limits) {
  const float v = scaled_@(total, scale);
  return __float_as_int(__saturatef(
      __fmaf_rn(v, __int_as_float(1), __int_as_float(number.zero_point))));
}
"""
_READ_BY_TABLE = r"""
__device__ __forceinline__ int value_@(int total, float scale, float addend,
                                       const float* limits) {
  const float v = fminf(scaled_@(total, scale), 255.f);
  return __float_as_int(__saturatef(__fmaf_rn(v, __int_as_float(1), __int_as_float(ZERO_POINT))));
}
"""
_TURNED = r"""
__device__ __forceinline__ unsigned turned_@(unsigned word, const float* limits) {
  return word ^ (unsigned)number.turned;
}
"""

_ONE_SCALE = r"""
__device__ __forceinline__ float value_@(int total, float scale, float addend,
                                         const float* limits) {
  return __fmaf_rn(__int_as_float(total), number.scale, number.addend);
}
"""
_UNIFORM = r"""
__device__ __forceinline__ float value_@(int total, float scale, float addend,
                                         const float* limits) {
  return scaled_@(total, number.scale);
}
"""

# The byte u as a half is the denormal u * 2**-24.
_HALVES = r"""
__device__ __forceinline__ float4 addends_@(unsigned word) {
  const unsigned low = __byte_perm(word ^ FLIP, 0, 0x4140);
  const unsigned high = __byte_perm(word ^ FLIP, 0, 0x4342);
  float4 v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v.x) : "h"((unsigned short)low));
  asm("cvt.f32.f16 %0, %1;" : "=f"(v.y) : "h"((unsigned short)(low >> 16)));
  asm("cvt.f32.f16 %0, %1;" : "=f"(v.z) : "h"((unsigned short)high));
  asm("cvt.f32.f16 %0, %1;" : "=f"(v.w) : "h"((unsigned short)(high >> 16)));
  return v;
}
"""


@dataclass(frozen=True)
class Requantisation:
    """An epilogue in one form.

    The expressions read, where they stand, the float4 `first` and `second` of the scalars (ANY;
    BOUNDED only the residual's zero point in `second.x`), the words `limits` (the short
    forms, `short_forms/words.py`), or the floats `low`, `high` and `shift`, the zero point
    - 1.5 * 2**23 (CLAMP, SHIFT), and `lookups` where the epilogue has a table.
    """

    epilogue: Epilogue
    form: Form = Form.ANY

    def source(self) -> str:
        """Source of the functions that the expressions call."""
        scaled = SCALED_READ if self.form in (Form.CONVERTED, Form.READ) else SCALED
        return scaled + self._arithmetic() + self._lookups()

    def _lookups(self) -> str:
        if self.form is Form.READ:
            return read_lookup_source() if self.epilogue.table else ""
        return lookup_source(self.epilogue)

    def _arithmetic(self) -> str:
        """What comes between an accumulator's value and a word of outputs."""
        epilogue, form = self.epilogue, self.form
        if form is Form.ANY:
            source = CLAMPED + SHIFTED + BYTES4 + rescaled_source(epilogue) + _QUANTISED4
            if is_four_bit(epilogue.out_dtype):
                source += NARROW8
            if epilogue.out_dtype in ("float16", "bfloat16"):
                source += narrowing_source(epilogue.out_dtype)
            if epilogue.activation != "none":
                source += activation_source(epilogue.activation)
            return source + addend_source(epilogue.residual_dtype)
        source = saturated_source(epilogue.out_dtype)
        if form is Form.READ:
            if epilogue.table:
                return _READ_BY_TABLE.replace("ZERO_POINT", str(ABOVE_FIRST))
            return saturated_source("uint8") + with_numbers(_READ + _TURNED, READ)
        if form is Form.BOUNDED:
            return (
                source
                + for_residual(with_numbers(_BOUNDED, BOUNDED), epilogue)
                + addend_source(epilogue.residual_dtype)
            )
        if form is Form.CONVERTED:
            halves = _HALVES.replace("FLIP", flip(epilogue.residual_dtype))
            return source + for_residual(with_numbers(_CONVERTED, CONVERTED), epilogue) + halves
        if form in OF_ONE_SCALE:
            value = _ONE_SCALE if form is Form.ONE_SCALE else _UNIFORM
            return source + with_numbers(value, ONE_SCALE)
        return source + CLAMPED + SHIFTED

    def addends(self, words: str, first: int, name: str) -> tuple[list[str], list[str]]:
        """Statements, and expressions of the residuals of channels first to first + 3.

        words: a register array in which channels follow one another; name: of a new variable.
        """
        dtype = self.epilogue.residual_dtype
        if dtype is None:
            return [], ["0.f"] * 4
        held = element(dtype).per_word
        if self.form is Form.CONVERTED:
            word = f"addends_@({words}[{first // held}])"
            return [f"  const float4 {name} = {word};"], [f"{name}.{part}" for part in "xyzw"]
        places = [divmod(channel, held) for channel in range(first, first + 4)]
        return [], [f"addend_@({words}[{word}], {place}, second)" for word, place in places]

    def outputs(
        self, totals: Sequence[str], scales: Sequence[str], addends: Sequence[str]
    ) -> list[str]:
        """Expressions of the words of four outputs: one of bytes, two or four of floats or sums.

        totals: accumulators with their bias; scales: of each, as `value_factors` joins them.
        Outputs of 4 bits are bytes as well.
        """
        if self.epilogue.out_dtype == "int32":
            return list(totals)
        operands = list(zip(totals, scales, addends, strict=True))
        values = [self._value(*operand) for operand in operands]
        if self.epilogue.out_dtype in FLOAT_OUTPUTS:
            return self._floats(values)
        arguments = ",\n    ".join(values)
        if self.form is Form.ANY:
            word = f"quantised4_@({arguments}, second)"
        elif self.form is Form.READ:
            if self.epilogue.table:
                return [f"looked_up4_@({arguments}, lookups)"]
            return [f"turned_@(saturated4_@({arguments}), limits)"]
        elif self.form is Form.BOUNDED:
            word = f"saturated4_@({arguments})"
        else:
            word = f"converted4_@({arguments})"
        return [looked_up(self.epilogue, word)]

    def _floats(self, values: Sequence[str]) -> list[str]:
        """Expressions of the words of float outputs."""
        if self.epilogue.activation != "none":
            values = [f"activated_@({value})" for value in values]
        bounded = list(values)
        if not self.epilogue.dynamic:
            bounded = [f"bounded_@({value}, second)" for value in values]
        if self.epilogue.out_dtype == "float32":
            return [f"__float_as_uint({value})" for value in bounded]
        pairs = zip(bounded[::2], bounded[1::2], strict=True)
        return [f"floats2_@({first},\n    {second})" for first, second in pairs]

    def _value(self, total: str, scale: str, addend: str) -> str:
        """Expression of a value that the form's last function packs."""
        if self.form is Form.ANY:
            return f"rescaled_@({total}, {scale}, {addend}, first, second)"
        if self.form in SHORT:
            return f"value_@({total}, {scale}, {addend}, limits)"
        value = f"scaled_@({total}, {scale})"
        if self.form is Form.CLAMP:
            value = f"clamped_@({value}, low, high)"
        return value if self.form is Form.PACK else f"shifted_@({value}, shift)"
