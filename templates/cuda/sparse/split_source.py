"""CUDA source of products of few steps: some warps of a block share the steps of a group.

What a warp multiplies first lies where the block's and its own number say, so that nothing is read
in front of it: a block waits for places, for the rows that they name, and for the other warps.
"""

from __future__ import annotations

SPLIT_SOURCE = r"""
// Of a group: its steps behind those that warps begin with, all of them, and its first row of y.
struct Group { int rest, steps, row; };

// Loads that stand where they are: ptxas moves those by the non-coherent path behind the gathers.
__device__ __forceinline__ uint2 read_here(const uint2* from) {
  uint2 found;
  asm volatile("ld.global.v2.b32 {%0, %1}, [%2];"
               : "=r"(found.x), "=r"(found.y) : "l"(from) : "memory");
  return found;
}
__device__ __forceinline__ void fetch_step(
    Step& step, const uint2* values, const Place* places, int number) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) step.places[i] = read_here(places + number * 16 + 4 * i);
  #pragma unroll
  for (int i = 0; i < LEFT_DIGITS; ++i)
    step.values[i] = read_here(values + (number * LEFT_DIGITS + i) * 32);
}
// Of what all warps left in shared memory a warp finishes some neighbours of one row of each lane.
constexpr int EACH = 2 * OWN / WARPS, FINISHED = EACH < V ? V : EACH < WIDEST ? EACH : WIDEST;
template <Form FORM> __device__ __forceinline__ void finish_shared(
    const int* pieces, int count, const Rows& rows, const Channels& own, const Constants& from,
    OUT* y, int first_row, const Lane& lane, int warp) {
  #pragma unroll
  for (int unit = 0; unit < 2 * OWN / FINISHED; ++unit) {
    if (unit % WARPS != warp) continue;
    const int r = unit % 2, c = unit / 2 * FINISHED;
    const int row = first_row + 2 * (lane.number % 4) + r;
    if (!ROWS_INSIDE && row >= M || !COLUMNS_INSIDE && lane.column + c >= N) continue;
    const auto sum_of = [&](int plane, int j) {
      const int* piece = pieces + place_of_sum(plane, c + j, r) * 32 + lane.number;
      int sum = piece[0];
      #pragma unroll
      for (int i = 1; i < WARPS; ++i)
        if (i < count) sum = added(sum, piece[i * ALL_SUMS * 32]);
      return sum;
    };
    const int at = row * N + lane.column + c;
    store<OUT, FINISHED>(y + at, row_outputs<FORM, FINISHED>(sum_of, rows, r, own, from, at));
  }
}

__device__ __forceinline__ void multiply_sparse(
    unsigned char* smem, const B* b, const int* values, const void* places, const int* groups,
    const Constants& from, OUT* y, int block, int thread) {
  const int number = thread % 32, warp = thread / 32 % WARPS, team = thread / 32 / WARPS;
  const int tile = BY_TILES ? block / GROUP_BLOCKS : block % TILES;
  const int groups_before = (BY_TILES ? block % GROUP_BLOCKS : block / TILES) * TEAMS;
  // Teams behind the last group compute it too, with the same outputs.
  const int group = min(groups_before + team, GROUPS - 1);
  const Lane lane = {number, tile * COLUMNS + number / 4 * OWN};
  const uint2* own_values = reinterpret_cast<const uint2*>(values) + number;
  const Place* places_of_lane = own_places(places, 0, number);
  Step first, second;
  fetch_step(first, own_values, places_of_lane, group * WARPS + warp);
  const int4 found = __ldg(reinterpret_cast<const int4*>(groups) + group);
  const Group of = {found.x, found.y, found.z};
  const Channels own = terms_of(from);
  const Rows rows = rows_from(from, group, lane);
  int sums[ALL_SUMS];
  clear(sums, warp == 0 ? start_of(own) : 0);
  // Each warp's first step is there, be it of zeros: nothing is asked before its rows are read.
  int at = warp;
  const auto multiply = [&](const Step& step, Step& next) {
    const bool more = at + WARPS < of.steps;
    if (more) fetch_step(next, own_values, places_of_lane, of.rest + at);
    multiply_step(sums, step, 0, b, lane);
    at += WARPS;
    return more;
  };
  while (multiply(first, second) && multiply(second, first)) continue;
  if constexpr (WARPS == 1) {
    finish(sums, rows, own, from, y, of.row, lane);
  } else {
    int* pieces = reinterpret_cast<int*>(smem) + team * WARPS * ALL_SUMS * 32;
    #pragma unroll
    for (int i = 0; i < ALL_SUMS; ++i) pieces[(warp * ALL_SUMS + i) * 32 + number] = sums[i];
    asm volatile("bar.sync %0, %1;" :: "r"(1 + team), "n"(32 * WARPS) : "memory");
    const int count = min(WARPS, of.steps);
    if (SHORT && is_short(own))
      finish_shared<SHORT ? Form::PACK : Form::ANY>(
          pieces, count, rows, own, from, y, of.row, lane, warp);
    else if (SHIFTS && own.form == Form::SHIFT)
      finish_shared<SHIFTS ? Form::SHIFT : Form::ANY>(
          pieces, count, rows, own, from, y, of.row, lane, warp);
    else
      finish_shared<LAST>(pieces, count, rows, own, from, y, of.row, lane, warp);
  }
}
"""
