"""CUDA source of products of long vectors: what the warpgroups do that multiply.

Fragments are turned a stage at a time, or one instruction's at a time: the former has more products
under way at once, the latter needs few registers.
"""

from __future__ import annotations

MULTIPLY_SOURCE = r"""
constexpr unsigned long long LAYOUT =
    (unsigned long long)VECTOR << 16 | (unsigned long long)(128 >> 4) << 32;

template <int LATER> __device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(LATER) : "memory");
}
using Fragment = unsigned[4 * SIZE];
__device__ __forceinline__ void read_pairs(unsigned (&r)[4], unsigned rows) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(rows) : "memory");
}
// The fragment of one of a warp's tiles of 16 columns.
__device__ __forceinline__ void turn_rows(Fragment& a, unsigned rows, int tile) {
  if constexpr (NIBBLES) {  // two tiles have columns in the same bytes
    unsigned r[4];
    read_pairs(r, rows + tile / 2 * 16);
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned two = __byte_perm(r[2 * half], r[2 * half + 1], tile % 2 ? 0x7531 : 0x6420);
      a[2 * half] = two << 4 & 0xf0f0f0f0;
      a[2 * half + 1] = two & 0xf0f0f0f0;
    }
  } else if constexpr (FLOATS) {
    rows += tile * 16 * SIZE;
    #pragma unroll
    for (int i = 0; i < SIZE; ++i) {  // eights of columns
      unsigned r[4];
      read_pairs(r, rows + 16 * i);
      #pragma unroll
      for (int e = 0; e < 4; ++e) a[2 * e + i] = r[e];
    }
  } else {
    unsigned r[4];
    read_pairs(r, rows + tile * 16);
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      a[2 * half] = __byte_perm(r[2 * half], r[2 * half + 1], 0x6420);
      a[2 * half + 1] = __byte_perm(r[2 * half], r[2 * half + 1], 0x7531);
    }
  }
  // All are ready in front of the fence, or the compiler lets products wait for each other.
  #pragma unroll
  for (int e = 0; e < 4 * SIZE; ++e) asm volatile("" : "+r"(a[e]) :: "memory");
}
// Values of a stage: for 32 rows and a digit, or 16 rows of floats, two columns of 16 bytes, each
// of eights of rows.
__device__ __forceinline__ void multiply_rows(
    int (&sums)[TILE_SUMS], const Fragment& a, unsigned values, int depth) {
  const auto part = [&](int i) {
    const unsigned own = values + (depth * SIZE * LEFT_DIGITS + i) * VECTOR * 32;
    return LAYOUT | (own & 0x3ffff) >> 4;
  };
  #pragma unroll
  for (int i = 0; i < SIZE; ++i) multiply_tile<0>(sums, a + 4 * i, part(i));
  if constexpr (LEFT_DIGITS == 2) multiply_tile<1>(sums + PLANE_SUMS, a, part(1));
}

"""
"""Fragments of gathered rows, and one product."""

WHOLE_STAGES = r"""
__device__ __forceinline__ void multiply_stages(
    int (&sums)[TILES][TILE_SUMS], const Ring& ring, const VectorRow& row, Position& at,
    unsigned lane_place, int number) {
  Fragment a[DEPTHS][TILES], b[DEPTHS][TILES];
  int before = -1;
  const auto step = [&](Fragment (&own)[DEPTHS][TILES]) {
    wait_for(ring.full(at.stage), at.phase);
    const unsigned rows = ring.rows(at.stage) + lane_place;
    #pragma unroll
    for (int d = 0; d < DEPTHS; ++d)
      #pragma unroll
      for (int i = 0; i < TILES; ++i) turn_rows(own[d][i], rows + 32 * d * PITCH, i);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int d = 0; d < DEPTHS; ++d)
      #pragma unroll
      for (int i = 0; i < TILES; ++i) multiply_rows(sums[i], own[d][i], ring.stage(at.stage), d);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    wait_for_products<1>();
    if (before >= 0) leave(ring, before, number);
    before = at.stage;
    at.advance();
  };
  // A last stage that was cut.
  const auto cut_step = [&](int left) {
    wait_for(ring.full(at.stage), at.phase);
    const unsigned rows = ring.rows(at.stage) + lane_place;
    #pragma unroll
    for (int d = 0; d < DEPTHS - 1; ++d) {
      if (32 * d >= left) break;
      #pragma unroll
      for (int i = 0; i < TILES; ++i) turn_rows(a[d][i], rows + 32 * d * PITCH, i);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      #pragma unroll
      for (int i = 0; i < TILES; ++i) multiply_rows(sums[i], a[d][i], ring.stage(at.stage), d);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      wait_for_products<0>();
    }
    if (before >= 0) leave(ring, before, number);
    before = at.stage;
    at.advance();
  };
  // Of a stage that is not cut more rows are left than these.
  constexpr int CUT = CUTS_LAST ? ROWS - 32 : 0;
  int left = row.length;
  #pragma unroll 1
  for (; left > ROWS + CUT; left -= 2 * ROWS) {
    step(a);
    step(b);
  }
  wait_for_products<0>();
  if (left > CUT) {
    step(a);
    wait_for_products<0>();
    left -= ROWS;
  }
  if (CUTS_LAST && left > 0) cut_step(left);
  if (before >= 0) leave(ring, before, number);
}
"""
"""Products of stages whose fragments are turned together.

The loop is over pairs of stages, whose fragments have registers of their own, without a branch
between them: else products wait for each other.
"""

SINGLE_PRODUCTS = r"""
__device__ __forceinline__ void multiply_stages(
    int (&sums)[TILES][TILE_SUMS], const Ring& ring, const VectorRow& row, Position& at,
    unsigned lane_place, int number) {
  constexpr int PRODUCTS = DEPTHS * TILES, LATER = PRODUCTS > 1 ? 1 : 0;
  Fragment a[2];  // of the instruction under way and of the next one
  int before = -1;
  #pragma unroll 1
  for (int left = row.length; left > 0; left -= ROWS) {
    const unsigned rows = ring.rows(at.stage) + lane_place, values = ring.stage(at.stage);
    wait_for(ring.full(at.stage), at.phase);
    #pragma unroll
    for (int p = 0; p < PRODUCTS; ++p) {
      wait_for_products<LATER>();
      // Of the stage before, no product is under way now.
      if (p == LATER && before >= 0) leave(ring, before, number);
      turn_rows(a[p % 2], rows + p / TILES * 32 * PITCH, p % TILES);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      multiply_rows(sums[p % TILES], a[p % 2], values, p / TILES);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    before = at.stage;
    at.advance();
  }
  wait_for_products<0>();
  if (before >= 0) leave(ring, before, number);
}
"""
"""Products whose fragments are turned one after the other."""
