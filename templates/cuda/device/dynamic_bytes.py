"""CUDA of bytes by the range that values turn out to have, as `DynamicQuantize` says.

A quotient is rounded to a whole number, which a product with the reciprocal gives as well where it
lies clear of the middle between two: what is left of the value says so, and the few others are
divided.
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
// N bytes of a word, the first one lowest.
template <int N> __device__ __forceinline__ unsigned bytes_of(
    const float (&value)[N], Steps steps) {
  float whole[N];
  bool clear = true;
  #pragma unroll
  for (int i = 0; i < N; ++i) {
    const float moved = __fadd_rn(__fmul_rn(value[i], steps.reciprocal), 12582912.f);
    whole[i] = __fadd_rn(moved, -12582912.f);
    clear &= fabsf(__fmaf_rn(-whole[i], steps.scale, value[i])) < steps.near;
  }
  if (!clear) {
    #pragma unroll
    for (int i = 0; i < N; ++i) whole[i] = rintf(__fdiv_rn(value[i], steps.scale));
  }
  unsigned word = 0;
  #pragma unroll
  for (int i = 0; i < N; ++i) {
    const float bounded = fminf(fmaxf(whole[i] + steps.zero, 0.f), BYTE_LEVELS);
    word |= (__float_as_uint(bounded + 8388608.f) & 0xffu) << (8 * i);
  }
  return word;
}
"""
)
"""steps_of(range), steps_of(scale, zero point) and bytes_of(values, steps); it follows RANGE."""
