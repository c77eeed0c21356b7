"""CUDA source of gathers from a panel of nibbles, for tensor cores that multiply these as they are.

A step has 64 rows of b, of which a lane names two. ldmatrix.trans gives units of two bytes, four
columns, of rows 2t and 2t + 1 of each eight. Of four eights byte permutes put the bytes of four
rows together, and shifts and masks make a word of eight rows of each column: the nibbles of a
column of the first two eights below those of the others.
"""

from __future__ import annotations

from autoq.templates.cuda.sparse.staged_source import PANEL_SOURCE

NIBBLE_SOURCE = (
    PANEL_SOURCE
    + r"""
struct Step { uint2 values[LEFT_DIGITS]; unsigned places; };
using Place = unsigned;
__device__ __forceinline__ const Place* own_places(const void* places, int start, int number) {
  return reinterpret_cast<const Place*>(places) + start * 32 + number;
}
__device__ __forceinline__ void fetch_places(Step& step, const Place* places, int number) {
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(step.places) : "l"(places + number * 32));
}
__device__ __forceinline__ void fetch_first_places(Step& step, const Place* places, int number) {
  asm volatile("ld.global.b32 %0, [%1];"
               : "=r"(step.places) : "l"(places + number * 32) : "memory");
}

// Of 32 rows, eight of each of a lane's four columns.
__device__ __forceinline__ void gather(unsigned (&columns)[4], unsigned at) {
  unsigned r[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
  #pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    const unsigned bytes = pair ? 0x7531 : 0x6420;
    const unsigned first = __byte_perm(r[0], r[1], bytes);
    const unsigned second = __byte_perm(r[2], r[3], bytes);
    columns[2 * pair] = (first & 0x0f0f0f0f) | (second << 4 & 0xf0f0f0f0);
    columns[2 * pair + 1] = (first >> 4 & 0x0f0f0f0f) | (second & 0xf0f0f0f0);
  }
}
template <int LEFT> __device__ __forceinline__ void multiply_digits(
    int* sums, const unsigned (&a)[4], const Step& step) {
  product<LEFT, 0>(sums + LEFT * SUMS, a, step.values[LEFT]);
  if constexpr (LEFT + 1 < LEFT_DIGITS) multiply_digits<LEFT + 1>(sums, a, step);
}
__device__ __forceinline__ void multiply_step(
    int (&sums)[ALL_SUMS], const Step& step, unsigned panel, const B* b, const Lane& lane) {
  const unsigned first = panel + (step.places & 0xffff) * 16;
  const unsigned second = panel + (step.places >> 16) * 16;
  #pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    unsigned lower[4], upper[4];
    gather(lower, first ^ c * 16);
    gather(upper, second ^ c * 16);
    #pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const unsigned a[4] = {lower[2 * pair], lower[2 * pair + 1],
                             upper[2 * pair], upper[2 * pair + 1]};
      multiply_digits<0>(sums + 8 * c + 4 * pair, a, step);
    }
  }
}
"""
)
