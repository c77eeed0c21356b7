"""CUDA source of cuts: the magnitude above which values of a row or column matter."""

CUTS = r"""
// Of the parts of a sum that lie `step` apart, in their order: lanes take parts in turn.
__device__ __forceinline__ double sum_of(const double* parts, int count, size_t step, int lane) {
  double sum = 0.;
  for (int i = lane; i < count; i += 32) sum += __ldg(parts + i * step);
  #pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  return sum;
}
// Integers with a larger magnitude matter; NaN gives one that none has.
__device__ __forceinline__ int whole_cut(double weighed, double whole, float threshold) {
  const double cut = 2. * (double)threshold * (weighed / whole);
  return cut < 128. ? (int)cut : 128;
}
// One in the highest bit of bytes whose magnitude is above the cut, which is at least 0.
__device__ __forceinline__ unsigned above(unsigned word, int cut) {
  if (cut >= 128) return 0u;
  const unsigned sign = (word >> 7) & 0x01010101u;
  return ((word ^ (sign * 255u)) + sign + (127 - cut) * 0x01010101u) & 0x80808080u;
}
"""
"""sum_of(parts, count, step, lane): a warp's sum. whole_cut(...): of a row; above(word, cut)."""
