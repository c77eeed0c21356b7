"""CUDA source that adds four numbers of each lane over a warp."""

FOUR_OVER_WARP = r"""
// Of four numbers of each lane: eight lanes get the sum of one of them, which is returned last.
__device__ __forceinline__ double four_over_warp(double (&x)[4], int lane, int& which) {
  const bool upper = lane & 16, odd = lane & 8;
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    const double kept = upper ? x[2 + i] : x[i], sent = upper ? x[i] : x[2 + i];
    x[i] = kept + __shfl_xor_sync(0xffffffffu, sent, 16);
  }
  const double kept = odd ? x[1] : x[0], sent = odd ? x[0] : x[1];
  double sum = kept + __shfl_xor_sync(0xffffffffu, sent, 8);
  #pragma unroll
  for (int apart = 4; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  which = lane / 8;
  return sum;
}
"""
"""four_over_warp(numbers, lane, which): the sum of one of the four, of which `which` says."""
