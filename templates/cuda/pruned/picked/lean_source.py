"""CUDA source of picked products that take few registers: no word is read ahead of its product."""

from __future__ import annotations

LEAN = r"""
using Picks = uint2;
__device__ __forceinline__ unsigned word_at(unsigned at) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
}
__device__ __forceinline__ Picks picks_at(unsigned at) {
  Picks picks;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
               : "=r"(picks.x), "=r"(picks.y) : "r"(at) : "memory");
  return picks;
}
// Of two rows, eight apart, what a lane picks of two words of the newest two stages.
__device__ __forceinline__ void pick_two(
    unsigned* to, unsigned pick, unsigned row_at, unsigned swizzle, const Window& window) {
  const unsigned one =
      (pick >> 14 & 0x7c ^ swizzle) + row_at + (pick >> 21 & 1 ? window.odd : window.even);
  const unsigned other =
      (pick >> 20 & 0x7c ^ swizzle) + row_at + (pick >> 27 & 1 ? window.odd : window.even);
  const unsigned first[2] = {word_at(one), word_at(one + 8 * ROW_BYTES)};
  const unsigned second[2] = {word_at(other), word_at(other + 8 * ROW_BYTES)};
  to[0] = __byte_perm(first[0], second[0], pick), to[1] = __byte_perm(first[1], second[1], pick);
}
// The sums of one tile's columns, of BLOCKS_M times 64 rows of a consumer.
__device__ __forceinline__ void multiply_tile(
    SUM (&sums)[ALL], const Rings& rings, Place& place, Window& window, const unsigned char*,
    int stages, int own_row, int lane) {
  // Units of 16 bytes change places by the number of the line of 128 bytes that they are in.
  const unsigned row_at = (own_row + lane / 4) * ROW_BYTES;
  const unsigned swizzle = lane / 4 * ROW_BYTES / 128 << 4;
  unsigned f[4];
  #pragma unroll 1
  for (int s = 0; s < stages; ++s) {
    const unsigned weights = rings.weights.stages + place.stage * W_STAGE;
    barrier_wait(rings.weights.full + 8 * place.stage, place.phase);
    Picks picks[DEPTH];
    #pragma unroll
    for (int step = 0; step < DEPTH; ++step)
      picks[step] = picks_at(weights + PICKS_AT + step * 32 + lane % 4 * 8);
    #pragma unroll 1
    for (int n = __shfl_sync(0xffffffff, picks[0].x >> 28 & 7, 0); n > 0; --n)
      window.advance(rings.x, lane);
    const unsigned long long descriptor = weights_at(weights);
    #pragma unroll
    for (int step = 0; step < DEPTH; ++step) {
      #pragma unroll
      for (int b = 0; b < BLOCKS_M; ++b) {
        asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
        const unsigned rows = row_at + b * BLOCK_BYTES;
        pick_two(f, picks[step].x, rows, swizzle, window);
        pick_two(f + 2, picks[step].y, rows, swizzle, window);
        #pragma unroll
        for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(f[e]) : : "memory");
        begin_products();
        product(sums + b * (WIDTH / 2), f[0], f[1], f[2], f[3], descriptor + step * 2 * WIDTH,
                s + step > 0);
        end_products();
      }
      if (step == 0 && s > 0) leave_weights(rings.weights, place, 1, lane);
    }
    place.next();
  }
  window.end(rings.x, lane);
  hand_over(rings, lane);
  asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
  #pragma unroll
  for (int i = 0; i < ALL; ++i) hold(sums[i]);
  leave_weights(rings.weights, place, 1, lane);
}
"""
"""Registers of the left factor are put together of words that `picks.Picks` names."""
