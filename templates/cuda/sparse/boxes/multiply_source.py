"""CUDA source of consumers of boxes: fragments of the rows that a vector row has, and products."""

from __future__ import annotations

from autoq.templates.cuda.device.memory.matrix_source import READ_MATRICES
from autoq.templates.cuda.device.turned.fragment_source import TURN_FRAGMENT
from autoq.templates.cuda.device.turned.window_source import window_source

MULTIPLY_BOXES = (
    READ_MATRICES
    + TURN_FRAGMENT
    + window_source("BoxPlace", "B_STAGES")
    + r"""
__device__ __forceinline__ unsigned read_word(unsigned at) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
}
// A warp has multiplied a stage.
__device__ __forceinline__ void leave_vectors(const Ring& ring, int stage, int lane) {
  __syncwarp();
  if (lane == 0) barrier_arrive(ring.empty + 8 * stage);
}
template <int LATER> __device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(LATER) : "memory");
}
constexpr unsigned long long LAYOUT =
    (unsigned long long)VECTOR << 16 | (unsigned long long)(128 >> 4) << 32;

// Fragments of the rows of a step, and its products.
using Fragments = unsigned[TILES][4];
__device__ __forceinline__ void turn_step(
    Fragments& own, unsigned line, unsigned column, unsigned row) {
  const unsigned at = line + row * 128 + (column ^ (row & 7) << 4) +
      row / STAGE_K * (B_STAGE - LINE_BYTES);
  #pragma unroll
  for (int i = 0; i < TILES; ++i) {
    unsigned r[4];
    read_matrices<true>(r, at ^ i * 16);
    turn_fragment(own[i], r);
  }
}
__device__ __forceinline__ void multiply_step(
    int (&sums)[TILES][TILE_SUMS], const Fragments& own, unsigned values) {
  #pragma unroll
  for (int i = 0; i < TILES; ++i)
    multiply_tile<0>(sums[i], own[i], LAYOUT | (values & 0x3ffff) >> 4);
}

// The products of a side: own_byte is where a warp's columns begin in a row of a stage.
__device__ __forceinline__ void multiply_side(
    int (&sums)[TILES][TILE_SUMS], const Ring& boxes, const Ring& vectors, Place& place,
    Window& window, int stages, int own_byte, int lane) {
  // Of the steps that are turned together, and of the next ones.
  constexpr int TOGETHER = FRAGMENTS / 2;
  Fragments sets[2][TOGETHER];
  const unsigned line = boxes.stages + own_byte / 128 * LINE_BYTES, column = own_byte % 128;
  int before = -1;
  const auto multiply_stage = [&](int first_set) {
    const unsigned values = vectors.stages + place.stage * W_STAGE;
    barrier_wait(vectors.full + 8 * place.stage, place.phase);
    const unsigned word = read_word(values + VALUES_BYTES + lane * 4);
    // The same for all lanes, of which a shuffle tells the compiler.
    const unsigned told = __shfl_sync(0xffffffff, word >> 24, 0);
    window.leave(boxes, told & 15, lane);
    #pragma unroll 1
    for (int n = told >> 4; n > 0; --n) window.advance(boxes);
    #pragma unroll
    for (int first = 0; first < DEPTH; first += TOGETHER) {
      Fragments (&own)[TOGETHER] = sets[(first_set + first) % 2];
      #pragma unroll
      for (int step = 0; step < TOGETHER; ++step)
        turn_step(own[step], line, column, word >> (first + step) * 12 & 0xfff);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      #pragma unroll
      for (int step = 0; step < TOGETHER; ++step)
        multiply_step(sums, own[step], values + (first + step) * 32 * VECTOR);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      wait_for_products<1>();
      // Of the stage before no product is under way.
      if (first == 0 && before >= 0) leave_vectors(vectors, before, lane);
    }
    before = place.stage;
    place.next();
  };
  #pragma unroll 1
  for (; stages > 1; stages -= 2) {
    multiply_stage(0);
    multiply_stage(1);
  }
  if (stages > 0) multiply_stage(0);
  window.end(boxes, lane);
  wait_for_products<0>();
  leave_vectors(vectors, before, lane);
}
"""
)
"""multiply_side(sums, boxes, vectors, place, window, stages, own_byte, lane).

Fragments of a stage of vectors, or of one step, are turned while the products before are under way:
the loop is over pairs of stages, whose fragments have registers of their own.
"""
