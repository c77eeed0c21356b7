"""CUDA source of products whose left factor is any rows of x turned, read by ldmatrix."""

from __future__ import annotations

from autoq.templates.cuda.device.memory.matrix_source import READ_MATRICES
from autoq.templates.cuda.device.turned.fragment_source import TURN_FRAGMENT

TURNED_BOX = (
    "",
    """#pragma unroll 1
      for (int panel = 0; panel < PANELS; ++panel)
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%2, %3}], [%4];"
            : : "r"(ring.stages + place.stage * X_STAGE + panel * PANEL_BYTES), "l"(x_map),
                "r"(row + panel * (128 / SIZE)), "r"(s * STAGE_K), "r"(full) : "memory");""",
)
"""Rows of x turned, in panels of 128 bytes."""

TURNED = (
    READ_MATRICES
    + TURN_FRAGMENT
    + r"""
// The step of a block behind which no product of the block before is under way.
constexpr int FREED = FRAGMENTS - 1;
__device__ __forceinline__ unsigned read_word(unsigned at) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
}
// The sums of one tile's columns, of BLOCKS_M times 64 rows of a consumer.
__device__ __forceinline__ void multiply_tile(
    SUM (&sums)[ALL], const Rings& rings, Place& place, Window& window, const unsigned char*,
    int stages, int own_row, int lane) {
  constexpr int HELD_BLOCKS = FRAGMENTS > 1 ? BLOCKS_M : 1;
  unsigned a[FRAGMENTS][HELD_BLOCKS][4];  // of products under way and of the next ones
  unsigned r[HELD_BLOCKS][4];             // of the next ones, as they were read
  const unsigned byte = own_row * SIZE + (SIZE == 1 ? 0 : lane / 8 % 2 * 16);
  const unsigned panel = rings.x.stages + byte / 128 * PANEL_BYTES, column = byte % 128;
  #pragma unroll 1
  for (int s = 0; s < stages; ++s) {
    const unsigned weights = rings.weights.stages + place.stage * W_STAGE;
    barrier_wait(rings.weights.full + 8 * place.stage, place.phase);
    const unsigned word = read_word(weights + PICKS_AT + lane * 4);
    // The same for all lanes, of which a shuffle tells the compiler.
    const unsigned told = __shfl_sync(0xffffffff, word >> 24, 0);
    window.leave(rings.x, told & 15, lane);
    #pragma unroll 1
    for (int n = told >> 4; n > 0; --n) window.advance(rings.x);
    const unsigned long long descriptor = weights_at(weights);
    #pragma unroll
    for (int step = 0; step < DEPTH; ++step) {
      const unsigned row = word >> step * 12 & 0xfff;
      const unsigned at = panel + row * 128 + (column ^ (row & 7) << 4) +
          row / STAGE_K * (X_STAGE - PANEL_BYTES);
      const auto from = [&](int b) {
        constexpr int BYTES = 64 * SIZE;  // to the next 64 rows of y
        return (at ^ b * BYTES % 128) + b * BYTES / 128 * PANEL_BYTES;
      };
      const auto multiply = [&](int b, const unsigned (&f)[4]) {
        product(sums + b * (WIDTH / 2), f[0], f[1], f[2], f[3], descriptor + step * 2 * WIDTH,
                s + step > 0);
      };
      if constexpr (FRAGMENTS > 1) {
        unsigned (&f)[HELD_BLOCKS][4] = a[step % FRAGMENTS];
        #pragma unroll
        for (int b = 0; b < HELD_BLOCKS; ++b) read_matrices<true>(r[b], from(b));
        await_products();
        #pragma unroll
        for (int b = 0; b < HELD_BLOCKS; ++b) turn_fragment(f[b], r[b]);
        begin_products();
        #pragma unroll
        for (int b = 0; b < HELD_BLOCKS; ++b) multiply(b, f[b]);
        end_products();
      } else {
        #pragma unroll
        for (int b = 0; b < BLOCKS_M; ++b) {
          asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
          read_matrices<true>(r[0], from(b));
          turn_fragment(a[0][0], r[0]);
          begin_products();
          multiply(b, a[0][0]);
          end_products();
        }
      }
      // At most one group of products is under way, and those of the block before have ended.
      if (step == FREED && s > 0) leave_weights(rings.weights, place, 1, lane);
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
)
"""Registers of the left factor are rows of the ring that `row_steps.RowSteps` names."""
