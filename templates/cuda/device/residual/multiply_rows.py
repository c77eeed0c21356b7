"""CUDA source in which tensor cores multiply the lists of a panel's rows with what these gather.

The lists of 16 rows lie behind each other in shared memory. A four of entries belongs to one row,
so that a lane of mma.m16n8k32, which has four neighbouring k of two rows, has it or zeros.
"""

from __future__ import annotations

PANEL_ROWS = 16
"""Rows of a panel whose lists are multiplied: those of an instruction."""

FOURS = 512
"""Of entries of a panel's rows that have room in shared memory; longer lists are added by lanes."""

LISTS_BYTES = FOURS * (16 + 1)
"""Shared memory of the lists: entries, and the row of each four."""

MULTIPLY_ROWS = r"""
constexpr int FOURS_AT_ONCE = 8;
// Puts the lists of the panel's rows behind each other, up to whole instructions; lists: those of
// the rows that this lane has. Returns how many fours there are, of which none is there where they
// have no room.
__device__ __forceinline__ int stage_rows(
    const uint4* entries, const int2& list, uint4* staged, unsigned char* row_of, int warp,
    int lane) {
  int up_to = list.y;
  #pragma unroll
  for (int apart = 1; apart < ROWS; apart *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, up_to, apart);
    if (lane >= apart) up_to += other;
  }
  const int all = __shfl_sync(0xffffffffu, up_to, ROWS - 1);
  if (all > FOURS) return all;
  for (int r = warp; r < ROWS; r += WARPS) {
    const int start = __shfl_sync(0xffffffffu, list.x, r);
    const int count = __shfl_sync(0xffffffffu, list.y, r);
    const int before = __shfl_sync(0xffffffffu, up_to, r) - count;
    for (int e = lane; e < count; e += 32)
      staged[before + e] = __ldg(entries + start + e), row_of[before + e] = r;
  }
  const int missing = -all & (FOURS_AT_ONCE - 1);
  if (warp == 0 && lane < missing)
    staged[all + lane] = make_uint4(0, 0, 0, 0), row_of[all + lane] = 0;
  return all;
}
// Of an instruction's 32 entries what a lane gathers: 8 columns of two fours.
struct Gathered { uint2 word[2][4]; };
__device__ __forceinline__ void gather_columns(
    const unsigned char* residuals, const uint4* staged, Gathered& found) {
  #pragma unroll
  for (int h = 0; h < 2; ++h) {
    const uint4 e = staged[4 * h];
    const unsigned entry[4] = {e.x, e.y, e.z, e.w};
    #pragma unroll
    for (int u = 0; u < 4; ++u)
      found.word[h][u] =
          __ldg(reinterpret_cast<const uint2*>(residuals + (entry[u] >> 8) * PIECE));
  }
}
// Of the first two instructions.
__device__ __forceinline__ void gather_first(
    const unsigned char* residuals, const uint4* staged, int fours, Gathered (&found)[2]) {
  #pragma unroll
  for (int d = 0; d < 2; ++d)
    if (d * FOURS_AT_ONCE < fours)
      gather_columns(residuals, staged + d * FOURS_AT_ONCE, found[d]);
}
__device__ __forceinline__ void turn_columns(const uint2 (&word)[4], unsigned (&turned)[8]) {
  const unsigned low[4] = {word[0].x, word[1].x, word[2].x, word[3].x};
  const unsigned high[4] = {word[0].y, word[1].y, word[2].y, word[3].y};
  unsigned found[4];
  turn_four(low, found);
  #pragma unroll
  for (int i = 0; i < 4; ++i) turned[i] = found[i];
  turn_four(high, found);
  #pragma unroll
  for (int i = 0; i < 4; ++i) turned[4 + i] = found[i];
}
__device__ __forceinline__ void multiply_entries(
    int (&d)[4], const unsigned (&a)[4], unsigned low, unsigned high) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
}
// Two instructions for each of 8 columns. Instruction i multiplies columns i, 8 + i, 16 + i, ... of
// the tile, so that a lane gathers whole words and has 16 neighbouring columns of two rows. staged,
// row_of: of the lane's first four; residuals: of its 8 columns; found: what entries of both
// instructions gather, since what is on its way decides how long all take.
__device__ __forceinline__ void multiply_rows(
    const unsigned char* residuals, const uint4* staged, const unsigned char* row_of, int both,
    int fours, Gathered (&found)[2], int (&product)[8][4], int lane) {
  #pragma unroll
  for (int d = 0; d < 2; ++d) {
    const int q = both + d * FOURS_AT_ONCE, next = q + 2 * FOURS_AT_ONCE;
    if (q >= fours) break;
    unsigned a[4], turned[2][8];
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
      const unsigned values = values_of(staged[q + 4 * h]);
      const int row = row_of[q + 4 * h];
      a[2 * h] = row == lane / 4 ? values : 0;
      a[2 * h + 1] = row == lane / 4 + 8 ? values : 0;
      turn_columns(found[d].word[h], turned[h]);
    }
    if (next < fours) gather_columns(residuals, staged + next, found[d]);
    #pragma unroll
    for (int i = 0; i < 8; ++i) multiply_entries(product[i], a, turned[0][i], turned[1][i]);
  }
}
__device__ __forceinline__ void take_products(
    const int (&product)[8][4], int (&sums)[2][16]) {
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    #pragma unroll
    for (int t = 0; t < 2; ++t) sums[t][i] = product[i % 8][2 * t + i / 8];
  }
}
"""
"""stage_rows(...), multiply_rows(...) and take_products(...), for a namespace with `TURN_WORDS`,
`ADD_LISTS` and the constants ROWS, 16, WARPS, PIECE and FOURS."""
