"""CUDA source of what every form of the fused epilogue calls, bit for bit what `reference.py` says.

Products and sums are rounded one by one (__fmul_rn, __fadd_rn never contract). Rounding to an
integer adds 1.5 * 2**23: at that size a float's unit is 1 and its last bits are the integer, ties
to even. That asks for integral bounds within +-2**22, which quantised ranges are; the output's
zero point is added behind it, since an odd one inside the constant would turn ties. In all source
`@` stands for a hash that `device_function` puts there, so that functions of different text never
have one name.
"""

from __future__ import annotations

from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.epilogue import Epilogue

SCALED = r"""
__device__ __forceinline__ float scaled_@(int total, float scale) {
  return __fmul_rn(__int2float_rn(total), scale);
}
"""
"""scaled(total, scale): the value of an accumulator that holds its bias."""

SCALED_READ = r"""
__device__ __forceinline__ float scaled_@(int total, float scale) {
  return __fmul_rn(__fadd_rn(__int_as_float(total), -12582912.f), scale);
}
"""
"""The same of a sum that started at the bits of 1.5 * 2**23."""

CLAMPED = r"""
__device__ __forceinline__ float clamped_@(float v, float low, float high) {
  return fminf(fmaxf(v, low), high);
}
"""
"""clamped(v, low, high): NaN becomes low."""

SHIFTED = r"""
__device__ __forceinline__ float shifted_@(float v, float shift) {
  return __fadd_rn(__fadd_rn(v, 12582912.f), shift);
}
"""
"""shifted(v, zero point - 1.5 * 2**23): v rounded, plus the zero point."""

BYTES4 = r"""
__device__ __forceinline__ unsigned add_bytes_@(unsigned a, unsigned b) {
  return ((a & 0x7f7f7f7fu) + (b & 0x7f7f7f7fu)) ^ ((a ^ b) & 0x80808080u);
}
__device__ __forceinline__ unsigned bytes2_@(unsigned a, unsigned b) {
  return __byte_perm(a, b, 0x0040);
}
__device__ __forceinline__ unsigned last_byte_@(float v) {
  return __float_as_uint(__fadd_rn(v, 12582912.f)) & 0xffu;
}
__device__ __forceinline__ unsigned bytes4_@(unsigned ab, unsigned cd, unsigned zero_point) {
  return add_bytes_@(__byte_perm(ab, cd, 0x5410), zero_point * 0x01010101u);
}
"""
"""bytes2(a, b): the last bytes of two words; last_byte(v): of the integer v.

bytes4(ab, cd, z): four bytes, each with the zero point's last byte z added.
"""

SATURATED4 = r"""
__device__ __forceinline__ unsigned saturated4_@(int a, int b, int c, int d) {
  unsigned high, all;
  asm("cvt.pack.sat.TYPE.s32.b32 %0, %1, %2, %3;" : "=r"(high) : "r"(d), "r"(c), "r"(0));
  asm("cvt.pack.sat.TYPE.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(b), "r"(a), "r"(high));
  return all;
}
"""
CONVERTED4 = r"""
__device__ __forceinline__ unsigned converted4_@(float a, float b, float c, float d) {
  return saturated4_@(__float2int_rn(a), __float2int_rn(b), __float2int_rn(c), __float2int_rn(d));
}
"""

NARROW8 = r"""
__device__ __forceinline__ unsigned narrow8_@(unsigned a, unsigned b) {
  a &= 0x0f0f0f0fu, b &= 0x0f0f0f0fu;
  return __byte_perm(a | (a >> 4), b | (b >> 4), 0x6420);
}
"""
"""narrow8(a, b): the low nibbles of eight bytes in a word."""

_RESCALED = r"""
__device__ __forceinline__ float rescaled_@(int total, float scaleFACTORS, float addend,
                                            float4 first, float4 second) {
  float v = VALUE;
  SCALING
  if (BEFORE) {
    v = fminf(fmaxf(v, fmaxf(first.x, -4194304.f)), fminf(first.y, 4194304.f));
    v = shifted_@(v, -12582912.f);
    FACTORED
    v = __fmul_rn(v, first.z);
  }
  ADDITION
  return v;
}
"""
_ROW_SCALED = "v = __fmul_rn(v, row);"
_SHIFTED_BY = "v = __fadd_rn(v, shift);"
_ADDITION = "if (RESIDUAL) v = __fadd_rn(v, __fmul_rn(addend, first.w));"
_FACTORED = "v = shifted_@(clamped_@(__fmul_rn(v, factor), third.x, third.y), -12582912.f);"
_CHOICE = "if (scale == 0.f) v = __fmul_rn(addend, first.w);"

# The byte u of an unsigned word is the float 2**23 + u once 0x4B lies above it.
_ADDEND8 = r"""
__device__ __forceinline__ float addend_@(unsigned word, int e, float4 second) {
  float u = __uint_as_float(__byte_perm(word ^ FLIP, 0x4B000000u, 0x7440u + e));
  return __fadd_rn(u, __fsub_rn(OFFSET, second.x));
}
"""
# The same of a nibble, whose upper half starts at -8.
_ADDEND4 = r"""
__device__ __forceinline__ float addend_@(unsigned word, int e, float4 second) {
  float u = __uint_as_float((((word >> (4 * e)) & 15u) ^ FLIP) | 0x4B000000u);
  return __fadd_rn(u, __fsub_rn(OFFSET, second.x));
}
"""
_ADDEND16 = r"""
__device__ __forceinline__ float addend_@(unsigned word, int e, float4 second) {
  return __fsub_rn(WIDENED, second.x);
}
"""
_ADDEND32 = r"""
__device__ __forceinline__ float addend_@(unsigned word, int e, float4 second) {
  return __fsub_rn(__uint_as_float(word), second.x);
}
"""


def saturated_source(out_dtype: str) -> str:
    """saturated4(a, b, c, d) of integers and converted4 of floats: four bytes, clamped and packed.

    Conversion to an integer, ties to even, behind a saturating pack is one instruction for two
    values on sm_90 (F2IP).
    """
    return (SATURATED4 + CONVERTED4).replace("TYPE", element(out_dtype).ptx or "")


_FLOATS2 = r"""
__device__ __forceinline__ unsigned floats2_@(float a, float b) {
#if __CUDA_ARCH__ >= 800
  unsigned word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(b), "f"(a));
  return word;
#else
  unsigned short low, high;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low) : "f"(a));
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(b));
  return low | (unsigned)high << 16;
#endif
}
"""
_BFLOATS2 = r"""
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ unsigned floats2_@(float a, float b) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(b), "f"(a));
  return word;
}
#else
// Ties to even; a NaN stays one, and neither zero nor infinity changes.
__device__ __forceinline__ unsigned upper_half_@(float v) {
  const unsigned bits = __float_as_uint(v);
  return v != v ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
__device__ __forceinline__ unsigned floats2_@(float a, float b) {
  return upper_half_@(a) | upper_half_@(b) << 16;
}
#endif
"""
_WIDENED = r"""
__device__ __forceinline__ float widened_@(unsigned word, int e) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"((unsigned short)(word >> 16 * e)));
  return v;
}
"""


def narrowing_source(dtype: str) -> str:
    """floats2(a, b): two floats as float16 or bfloat16 in a word, a in its lower half."""
    return _FLOATS2 if dtype == "float16" else _BFLOATS2


def value_factors(epilogue: Epilogue, scale: str, row: str, shift: str) -> str:
    """The arguments of rescaled that an accumulator's value comes from: expressions of each."""
    return ", ".join(
        [
            scale,
            *([row] if epilogue.row_scale else []),
            *([shift] if epilogue.float_bias or epilogue.factor else []),
            *(["third"] if epilogue.factor else []),
        ]
    )


def rescaled_source(epilogue: Epilogue, scaled: bool = False) -> str:
    """rescaled(total, factors, addend, first, second): the value before it is clamped and rounded.

    The bias is in total already, which of groups of scales, or with `scaled`, is a float's bits;
    factors are what `value_factors` says; first and second are the two halves of the scalars
    operand, and third the bounds behind a factor. It calls scaled, clamped and shifted.
    """
    source = _RESCALED.replace("ADDITION", _CHOICE if epilogue.concatenates else _ADDITION)
    shift = "float factor" if epilogue.factor else "float shift"
    factors = value_factors(epilogue, "", "float row", shift)
    factors = factors.replace("third", "float4 third")
    scaling = (_ROW_SCALED if epilogue.row_scale else "") + (
        _SHIFTED_BY if epilogue.float_bias else ""
    )
    value = "__int_as_float(total)" if epilogue.scale_group or scaled else "scaled_@(total, scale)"
    source = source.replace("FACTORED", _FACTORED if epilogue.factor else "")
    source = source.replace("VALUE", value).replace("FACTORS", factors).replace("SCALING", scaling)
    return for_residual(source, epilogue)


def for_residual(source: str, epilogue: Epilogue) -> str:
    """Source whose BEFORE and RESIDUAL are what the epilogue says."""
    source = source.replace("BEFORE", str(int(epilogue.requantize_before_add)))
    return source.replace("RESIDUAL", str(int(epilogue.residual_dtype is not None)))


def flip(dtype: str | None) -> str:
    """What makes the bytes of a word unsigned."""
    return "0x80808080u" if dtype == "int8" else "0u"


def addend_source(dtype: str | None) -> str:
    """addend(word, e, second): residual e of a word (0 for float32) minus its zero point."""
    if dtype is None:
        return ""
    if dtype == "float32":
        return _ADDEND32
    if dtype == "bfloat16":
        return _ADDEND16.replace("WIDENED", "__uint_as_float(e ? word & 0xffff0000u : word << 16)")
    if dtype == "float16":
        return _WIDENED + _ADDEND16.replace("WIDENED", "widened_@(word, e)")
    if is_four_bit(dtype):
        source = _ADDEND4.replace("FLIP", "8u" if dtype == "int4" else "0u")
        return source.replace("OFFSET", "-8388616.f" if dtype == "int4" else "-8388608.f")
    source = _ADDEND8.replace("FLIP", flip(dtype))
    return source.replace("OFFSET", "-8388736.f" if dtype == "int8" else "-8388608.f")
