"""Sums of the bytes of a row and of their squares, exact, and bytes as floats that are cheap."""

from __future__ import annotations

SOURCE = r"""
template <class T> __device__ __forceinline__ int dot4(unsigned a, unsigned b, int sum) {
  if constexpr (SIGNED<T>) return __dp4a((int)a, (int)b, sum);
  else return (int)__dp4a(a, b, (unsigned)sum);
}
// Sums of at most 2^13 squares of bytes stay below 2^31.
template <class T, bool SQUARES> __device__ __forceinline__ void whole_sums(
    const Raw<T, V> (&a)[TOGETHER][CHUNKS], int (&result)[TOGETHER], float* shared, int lane,
    int thread) {
  #pragma unroll
  for (int t = 0; t < TOGETHER; ++t) {
    result[t] = 0;
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c)
      #pragma unroll
      for (int w = 0; w < (V + 3) / 4; ++w) {
        const unsigned word = inside(c, lane) ? a[t][c].word[w] : 0u;
        result[t] = dot4<T>(word, SQUARES ? word : 0x01010101u, result[t]);
      }
#if __CUDA_ARCH__ >= 800
    if constexpr (LANES >= 32) result[t] = __reduce_add_sync(0xffffffffu, result[t]);
    constexpr int most = LANES >= 32 ? 1 : LANES;
#else
    constexpr int most = LANES < 32 ? LANES : 32;
#endif
    #pragma unroll
    for (int apart = most / 2; apart > 0; apart /= 2)
      result[t] += __shfl_xor_sync(0xffffffffu, result[t], apart);
  }
  if constexpr (WARPS > 1) {
    int* sums = reinterpret_cast<int*>(shared);
    #pragma unroll
    for (int t = 0; t < TOGETHER; ++t)
      if (thread % 32 == 0) sums[t * WARPS + thread / 32] = result[t];
    __syncthreads();
    #pragma unroll
    for (int t = 0; t < TOGETHER; ++t) {
      result[t] = 0;
      #pragma unroll
      for (int w = 0; w < WARPS; ++w) result[t] += sums[t * WARPS + w];
    }
  }
}
template <class T, int V> __device__ __forceinline__ float share_of(const Raw<T, V>& raw, int i) {
  if constexpr (TOGETHER > 1)
    return __uint_as_float(__byte_perm(raw.word[i / 4], 0x3F000000u, 0x7440u + i % 4)) - 0.5f;
  const unsigned pair = __byte_perm(raw.word[i / 4], 0, i % 4 < 2 ? 0x4140 : 0x4342);
  float share;
  asm("cvt.f32.f16 %0, %1;" : "=f"(share) : "h"((unsigned short)(i % 2 ? pair >> 16 : pair)));
  return share;
}
template <class T> __device__ __forceinline__ void over_bytes(
    const Raw<T, V> (&a)[TOGETHER][CHUNKS], float (&total)[TOGETHER], float* shared, int lane,
    int thread) {
  int sums[TOGETHER];
  whole_sums<T, false>(a, sums, shared, lane, thread);
  #pragma unroll
  for (int t = 0; t < TOGETHER; ++t) total[t] = (float)sums[t];
}
template <class T> __device__ __forceinline__ void over_bytes(
    const Raw<T, V> (&a)[TOGETHER][CHUNKS], const float (&total)[TOGETHER],
    float (&spread)[TOGETHER], float* shared, int lane, int thread) {
  int squares[TOGETHER];
  whole_sums<T, true>(a, squares, shared, lane, thread);
  #pragma unroll
  for (int t = 0; t < TOGETHER; ++t) {
    const int sum = (int)total[t];
    spread[t] = (float)((long long)squares[t] * ROW - (long long)sum * sum);
  }
}
"""
"""over_bytes<T>(a, total, shared, lane, thread): each row's sum, which float32 holds.

over_bytes<T>(a, total, spread, shared, lane, thread): ROW times the sum of squares, less the square
of the sum. share_of<T>(raw, i): unsigned byte i times 2^-24. All go behind `Raw`, `inside` and the
constants of `rows.py`.
"""
