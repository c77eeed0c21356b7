"""CUDA source of what every form of the fused epilogue calls, bit for bit what `reference.py` says.

Products and sums are rounded one by one (__fmul_rn, __fadd_rn never contract). Rounding to an
integer adds 1.5 * 2**23: at that size a float's unit is 1 and its last bits are the integer, ties
to even. That asks for integral bounds within +-2**22, which quantised ranges are; the output's
zero point is added behind it, since an odd one inside the constant would turn ties. In all source
`@` stands for a hash that `device_function` puts there, so that functions of different text never
have one name.
"""

from __future__ import annotations

from autoq.templates.element import element
from autoq.templates.epilogue import Epilogue
from autoq.templates.storage import is_four_bit

SCALED = r"""
__device__ __forceinline__ float scaled_@(int total, float scale) {
  return __fmul_rn(__int2float_rn(total), scale);
}
"""
"""scaled(total, scale): the value of an accumulator that holds its bias."""

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
__device__ __forceinline__ float rescaled_@(int total, float scale, float addend,
                                            float4 first, float4 second) {
  float v = scaled_@(total, scale);
  if (BEFORE) {
    v = fminf(fmaxf(v, fmaxf(first.x, -4194304.f)), fminf(first.y, 4194304.f));
    v = __fmul_rn(shifted_@(v, -12582912.f), first.z);
  }
  ADDITION
  return v;
}
"""
_ADDITION = "if (RESIDUAL) v = __fadd_rn(v, __fmul_rn(addend, first.w));"
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


def rescaled_source(epilogue: Epilogue) -> str:
    """rescaled(total, scale, addend, first, second): the value before it is clamped and rounded.

    The bias is in total already; first and second are the two halves of the scalars operand. It
    calls scaled, clamped and shifted.
    """
    source = _RESCALED.replace("ADDITION", _CHOICE if epilogue.concatenates else _ADDITION)
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
    if is_four_bit(dtype):
        source = _ADDEND4.replace("FLIP", "8u" if dtype == "int4" else "0u")
        return source.replace("OFFSET", "-8388616.f" if dtype == "int4" else "-8388608.f")
    source = _ADDEND8.replace("FLIP", flip(dtype))
    return source.replace("OFFSET", "-8388736.f" if dtype == "int8" else "-8388608.f")
