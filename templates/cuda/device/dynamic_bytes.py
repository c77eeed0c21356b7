"""CUDA of bytes by the range that values turn out to have, as `DynamicQuantize` says.

A quotient is rounded to a whole number, which a product with the reciprocal gives as well where it
lies clear of the middle between two: what is left of the value says so, and the few others are
divided. Whole numbers are in the last bits of floats of the size of 1.5 * 2**23, where one
instruction adds the zero point and clamps.
"""

from __future__ import annotations

from autoq.templates.operators.dynamic_quantize import LARGE, LEVELS

DYNAMIC_BYTES = (
    f"constexpr float BYTE_LEVELS = {LEVELS}f, NEARLY_NONE = {LARGE}f;"
    + r"""
struct Steps {
  float scale, zero, reciprocal, near;
};
__device__ __forceinline__ Steps steps_of(float scale, float zero) {
  return {scale, zero, __fdiv_rn(1.f, scale), 0.4999f * scale};
}
__device__ __forceinline__ Steps steps_of(Range range) {
  float scale = __fdiv_rn(range.most - range.least, BYTE_LEVELS);
  scale += 1.f - fminf(scale * NEARLY_NONE, 1.f);
  const float exact = -__fdiv_rn(range.least, scale);
  return steps_of(scale, rintf(fminf(fmaxf(exact, 0.f), BYTE_LEVELS)));
}
// Of a value that lies anywhere, slowly.
__device__ __forceinline__ int divided_byte(float value, float scale, float zero) {
  return (int)fminf(fmaxf(rintf(__fdiv_rn(value, scale)) + zero, 0.f), BYTE_LEVELS);
}
// N bytes of a word, the first one lowest.
template <int N> __device__ __forceinline__ unsigned bytes_of(
    const float (&value)[N], Steps steps) {
  const int offset = (int)steps.zero - 0x4B400000;
  int byte[N];
  bool clear = true;
  #pragma unroll
  for (int i = 0; i < N; ++i) {
    const float moved = __fmaf_rn(value[i], steps.reciprocal, 12582912.f);
    const float whole = __fadd_rn(moved, -12582912.f);
    clear &= fabsf(__fmaf_rn(-whole, steps.scale, value[i])) < steps.near;
    byte[i] = __viaddmin_s32_relu(__float_as_int(moved), offset, 255);
  }
  if (!clear) {
    #pragma unroll
    for (int i = 0; i < N; ++i) byte[i] = divided_byte(value[i], steps.scale, steps.zero);
  }
  unsigned word = byte[0];
  #pragma unroll
  for (int i = 1; i < N; ++i) word |= (unsigned)byte[i] << (8 * i);
  return word;
}
"""
)
"""steps_of(range), steps_of(scale, zero point) and bytes_of(values, steps); it follows RANGE."""
