"""Pairs of 16-bit floats in a word, in CUDA: made of floats, parted, masked, and computed with."""

from __future__ import annotations

from autoq.templates.cuda.device.functions import DeviceFunction, device_function

_HALF = {
    "float16": """float v;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, PART; }" : "=f"(v) : "r"(word));
  return v;""",
    "bfloat16": "return __uint_as_float(WORD);",
}
_OF_PAIR = r"""
__device__ __forceinline__ float of_pair_@(unsigned word) {
  BODY
}
"""
# sm_75 rounds them one by one.
_PAIR = r"""
__device__ __forceinline__ unsigned pair_@(float low, float high) {
  unsigned word;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.TYPE.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#else
  asm("{ .reg .b16 l, h;\n"
      "cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }"
      : "=r"(word) : "f"(low), "f"(high));
#endif
  return word;
}
"""

ARITHMETIC = r"""
__device__ __forceinline__ unsigned sub_@(unsigned a, unsigned b) {
  unsigned d;
  asm("sub.rn.KIND %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ unsigned mul_@(unsigned a, unsigned b) {
  unsigned d;
  asm("mul.rn.KIND %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ unsigned fma_@(unsigned a, unsigned b, unsigned c) {
  unsigned d;
  asm("fma.rn.KIND %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
"""
# bfloat16 has sums and products of its own from sm_90 on; -0 leaves a product as it is.
_FUSED = r"""
__device__ __forceinline__ unsigned fma_@(unsigned a, unsigned b, unsigned c) {
  unsigned d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ __forceinline__ unsigned sub_@(unsigned a, unsigned b) {
  return fma_@(b, 0xbf80bf80u, a);
}
__device__ __forceinline__ unsigned mul_@(unsigned a, unsigned b) {
  return fma_@(a, b, 0x80008000u);
}
"""
# (word & mask) | bits in one instruction, which ptxas does not find for two constants.
MASKED = r"""
__device__ __forceinline__ unsigned masked_@(unsigned word, unsigned mask, unsigned bits) {
  unsigned d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(word), "r"(mask), "r"(bits));
  return d;
}
"""


def pair_source(dtype: str) -> str:
    """Source of `pair_@`(low, high) for float16, or for bfloat16, which sm_75 does not have."""
    return _PAIR.replace("TYPE", "f16x2" if dtype == "float16" else "bf16x2")


def of_pair(dtype: str, upper: int) -> DeviceFunction:
    """of_pair(word): the lower or the upper of two 16-bit floats as float32."""
    part, word = ("h", "word & 0xffff0000u") if upper else ("l", "word << 16")
    body = _HALF[dtype].replace("PART", part).replace("WORD", word)
    return device_function("of_pair", _OF_PAIR.replace("BODY", body))


def arithmetic(half: bool, fused: bool) -> str:
    """Source of `sub_@`, `mul_@` and `fma_@` of pairs of float16, or else of bfloat16.

    fused: of bfloat16, by multiply-adds alone, beside which sm_80 to sm_89 have nothing.
    """
    return _FUSED if fused and not half else ARITHMETIC
