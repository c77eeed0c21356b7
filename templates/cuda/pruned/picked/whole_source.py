"""CUDA source of products over all of k, both factors in shared memory."""

from __future__ import annotations

WHOLE = r"""
// The sums of one tile's columns over all of k, x and weights from shared memory.
__device__ __forceinline__ void multiply_tile(
    SUM (&sums)[ALL], const Rings& rings, Place& place, Window& window, const unsigned char*,
    int stages, int own_row, int lane) {
  constexpr int OF_X = ROW_BYTES / 32 / DEPTH;  // stages of weights to one of x
  constexpr unsigned long long SWIZZLE = ROW_BYTES == 128 ? 1 : ROW_BYTES == 64 ? 2 : 3;
  #pragma unroll 1
  for (int s = 0; s < stages; ++s) {
    const unsigned long long descriptor =
        weights_at(rings.weights.stages + place.stage * W_STAGE);
    if (s % OF_X == 0) window.advance(rings.x, lane);  // and leave the stage before the last one
    const unsigned at =
        (window.taken & 1 ? window.even : window.odd) + own_row / 64 * (64 * ROW_BYTES);
    const unsigned long long x = SWIZZLE << 62 | (unsigned long long)(ROW_BYTES / 2) << 32 |
        (at & 0x3ffff) >> 4 | s % OF_X * (DEPTH * 2);
    barrier_wait(rings.weights.full + 8 * place.stage, place.phase);
    begin_products();
    #pragma unroll
    for (int step = 0; step < DEPTH; ++step) {
      #pragma unroll
      for (int b = 0; b < BLOCKS_M; ++b)
        product(sums + b * (WIDTH / 2), x + b * (4 * ROW_BYTES) + step * 2,
                descriptor + step * 2 * WIDTH, s + step > 0);
    }
    end_products();
    await_products();
    if (s > 0) leave_weights(rings.weights, place, 1, lane);
    place.next();
  }
  hand_over(rings, lane);
  asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
  window.end(rings.x, lane);
  #pragma unroll
  for (int i = 0; i < ALL; ++i) hold(sums[i]);
  leave_weights(rings.weights, place, 1, lane);
}
"""
"""Both factors lie in shared memory."""
