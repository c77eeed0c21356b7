"""CUDA of bytes by the range that values turn out to have, as `DynamicQuantize` says."""

from __future__ import annotations

from autoq.templates.operators.dynamic_quantize import LARGE, LEVELS

DYNAMIC_BYTES = (
    f"constexpr float LEVELS = {LEVELS}f, LARGE = {LARGE}f;"
    + r"""
struct Steps {
  float scale, zero;
};
__device__ __forceinline__ Steps steps_of(Range range) {
  float scale = __fdiv_rn(range.most - range.least, LEVELS);
  scale += 1.f - fminf(scale * LARGE, 1.f);
  const float exact = -__fdiv_rn(range.least, scale);
  return {scale, rintf(fminf(fmaxf(exact, 0.f), LEVELS))};
}
__device__ __forceinline__ unsigned byte_of(float value, Steps steps) {
  const float found = rintf(__fdiv_rn(value, steps.scale)) + steps.zero;
  return (unsigned)fminf(fmaxf(found, 0.f), LEVELS);
}
"""
)
"""steps_of(range) and byte_of(value, steps); it follows `grid_range.RANGE`."""
