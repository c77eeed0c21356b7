"""CUDA source of the fused epilogue of single elements, bit for bit what `reference.py` says.

Products and sums are rounded one by one (__fmul_rn, __fadd_rn never contract). Rounding to an
integer adds 1.5 * 2**23: at that size a float's unit is 1 and its last bits are the integer, ties
to even. That asks for integral bounds within +-2**22, which quantised ranges are; the output's
zero point is added behind it, byte by byte, since an odd one inside the constant would turn ties.
"""

from __future__ import annotations

from autoq.templates.epilogue import Epilogue
from autoq.templates.storage import is_four_bit

_ELEMENT = r"""
__device__ __forceinline__ float rescale_@(int total, float scale, float addend,
                                           float4 first, float4 second) {
  float v = __fmul_rn(__int2float_rn(total), scale);
  if (BEFORE) {
    v = fminf(fmaxf(v, fmaxf(first.x, -4194304.f)), fminf(first.y, 4194304.f));
    v = __fmul_rn(__fadd_rn(__fadd_rn(v, 12582912.f), -12582912.f), first.z);
  }
  if (RESIDUAL) v = __fadd_rn(v, __fmul_rn(addend, first.w));
  return v;
}
__device__ __forceinline__ float bounded_@(float v, float4 second) {
  return v != v ? v : fminf(fmaxf(v, second.y), second.z);
}
__device__ __forceinline__ unsigned add_bytes_@(unsigned a, unsigned b) {
  return ((a & 0x7f7f7f7fu) + (b & 0x7f7f7f7fu)) ^ ((a ^ b) & 0x80808080u);
}
__device__ __forceinline__ unsigned quantise4_@(float a, float b, float c, float d,
                                                float4 second) {
  const float magic = 12582912.f;
  a = __fadd_rn(fminf(fmaxf(a, second.y), second.z), magic);
  b = __fadd_rn(fminf(fmaxf(b, second.y), second.z), magic);
  c = __fadd_rn(fminf(fmaxf(c, second.y), second.z), magic);
  d = __fadd_rn(fminf(fmaxf(d, second.y), second.z), magic);
  unsigned ab = __byte_perm(__float_as_uint(a), __float_as_uint(b), 0x0040);
  unsigned cd = __byte_perm(__float_as_uint(c), __float_as_uint(d), 0x0040);
  unsigned zero_point = __float_as_uint(__fadd_rn(second.w, magic)) & 0xffu;
  return add_bytes_@(__byte_perm(ab, cd, 0x5410), zero_point * 0x01010101u);
}
"""

_ADDITION = "  if (RESIDUAL) v = __fadd_rn(v, __fmul_rn(addend, first.w));\n"
_CHOICE = "  if (scale == 0.f) v = __fmul_rn(addend, first.w);\n"

_NARROW8 = r"""
__device__ __forceinline__ unsigned narrow8_@(unsigned a, unsigned b) {
  a &= 0x0f0f0f0fu, b &= 0x0f0f0f0fu;
  return __byte_perm(a | (a >> 4), b | (b >> 4), 0x6420);
}
"""

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


def element_source(epilogue: Epilogue) -> str:
    """Source of `rescale_@` and, by the dtypes, `quantise4_@` and `addend_@`.

    rescale(total, scale, addend, first, second): bias already in total; first and second are the
    two halves of the scalars operand. quantise4(a, b, c, d, second): four outputs in a word.
    addend(word, e, second): residual e of a word (0 for float32) minus its zero point. narrow8(a,
    b): the low nibbles of eight bytes in a word, where the output has 4 bits.
    """
    source = _ELEMENT
    if epilogue.concatenates:
        source = source.replace(_ADDITION, _CHOICE)
    source = source.replace("BEFORE", str(int(epilogue.requantize_before_add)))
    source = source.replace("RESIDUAL", str(int(epilogue.residual_dtype is not None)))
    if is_four_bit(epilogue.out_dtype):
        source += _NARROW8
    if epilogue.residual_dtype == "float32":
        return source + _ADDEND32
    if is_four_bit(epilogue.residual_dtype):
        signed = epilogue.residual_dtype == "int4"
        addend = _ADDEND4.replace("FLIP", "8u" if signed else "0u")
        source += addend.replace("OFFSET", "-8388616.f" if signed else "-8388608.f")
    elif epilogue.residual_dtype is not None:
        signed = epilogue.residual_dtype == "int8"
        addend = _ADDEND8.replace("FLIP", "0x80808080u" if signed else "0u")
        source += addend.replace("OFFSET", "-8388736.f" if signed else "-8388608.f")
    return source
