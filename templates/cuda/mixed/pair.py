"""Two floats as a word of two 16-bit ones, in CUDA."""

from __future__ import annotations

# sm_75 rounds them one by one.
_SOURCE = r"""
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


def pair_source(dtype: str) -> str:
    """Source of `pair_@`(low, high) for float16, or for bfloat16, which sm_75 does not have."""
    return _SOURCE.replace("TYPE", "f16x2" if dtype == "float16" else "bf16x2")
