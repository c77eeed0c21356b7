"""CUDA source that quantises values by the scale of their row or column, and their residuals.

`oracle/residual_quantisation.py` says what is computed, rounding by rounding.
"""

QUANTISATION = r"""
constexpr float WHOLES = 12582912.f;  // a float of this size has its integer in its last bits
struct Steps { float scale, inverse; };
__device__ __forceinline__ Steps steps_of(float largest) {
  const bool zero = largest < 0x1p-100f;
  const float divisor = zero ? 1.f : largest;
  return {zero ? 0.f : __fdiv_rn(divisor, (float)MOST), zero ? 0.f : __fdiv_rn(MOST, divisor)};
}
// The integer, in the last bits of what is returned.
__device__ __forceinline__ float quantised(float x, const Steps& steps) {
  return __fadd_rn(__fmul_rn(x, steps.inverse), WHOLES);
}
// What is left is at most half a step and what rounding adds, some 1e-5 of one at most, so that its
// integer is at most MOST without being bounded.
__device__ __forceinline__ float residual(float x, float quantised, const Steps& steps) {
  const float finer = __fmul_rn(steps.inverse, 2.f * MOST);
  const float rest = __fsub_rn(x, __fmul_rn(__fsub_rn(quantised, WHOLES), steps.scale));
  return __fadd_rn(__fmul_rn(rest, finer), WHOLES);
}
__device__ __forceinline__ float magnitude(float quantised) {
  return fabsf(__fsub_rn(quantised, WHOLES));
}
// The largest magnitude of some that are given as `magnitude` does.
__device__ __forceinline__ unsigned char peak_of(float largest) {
  return (unsigned char)__float_as_uint(__fadd_rn(largest, WHOLES));
}
__device__ __forceinline__ unsigned last_byte(float x) { return __float_as_uint(x) & 255u; }
__device__ __forceinline__ unsigned word_of(float a, float b, float c, float d) {
  const unsigned low = __byte_perm(__float_as_uint(a), __float_as_uint(b), 0x0040);
  const unsigned high = __byte_perm(__float_as_uint(c), __float_as_uint(d), 0x0040);
  return __byte_perm(low, high, 0x5410);
}
__device__ __forceinline__ float4 residuals(float4 x, float4 q, const Steps& steps) {
  return make_float4(residual(x.x, q.x, steps), residual(x.y, q.y, steps),
                     residual(x.z, q.z, steps), residual(x.w, q.w, steps));
}
__device__ __forceinline__ float4 quantised(float4 x, const Steps& steps) {
  return make_float4(quantised(x.x, steps), quantised(x.y, steps), quantised(x.z, steps),
                     quantised(x.w, steps));
}
__device__ __forceinline__ unsigned word_of(float4 q) { return word_of(q.x, q.y, q.z, q.w); }
__device__ __forceinline__ float largest_of(float4 x) {
  return fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
}
// Four values of a row of `length`, 0 beyond its end.
template <int LENGTH> __device__ __forceinline__ float4 read_four(const float* row, int at) {
  if constexpr (LENGTH % 4 == 0) {
    const float4 none = make_float4(0.f, 0.f, 0.f, 0.f);
    return at < LENGTH ? __ldg(reinterpret_cast<const float4*>(row + at)) : none;
  } else {
    return make_float4(at < LENGTH ? __ldg(row + at) : 0.f,
                       at + 1 < LENGTH ? __ldg(row + at + 1) : 0.f,
                       at + 2 < LENGTH ? __ldg(row + at + 2) : 0.f,
                       at + 3 < LENGTH ? __ldg(row + at + 3) : 0.f);
  }
}
"""
"""Source for a namespace with the constant MOST, the largest integer.

steps_of(largest): scale and inverse of a vector. quantised(x, steps), residual(x, quantised,
steps): integers as floats with the integer in their last byte; word_of(...): four of them as bytes;
peak_of(largest): the largest `magnitude` of some as a byte.
read_four<LENGTH>(row, at): four neighbouring values, 0 beyond the row's end.
"""
