"""CUDA source of a block's helpers, who store the outputs of all sides while others go on."""

from __future__ import annotations

HELP_SIDES = r"""
__device__ __forceinline__ void help_sides(
    const Outputs (&from)[SIDES], const int4* tiles, int block, int thread) {
  const int lane = thread % 32;
  int phase = 0;
  for (int turn = 0; turn * CLUSTERS < ITEMS; ++turn, phase ^= 1) {
    const int item = item_of(turn, block);
    if (item < 0) break;
    // What was laid out for the piece of work before is stored.
    #pragma unroll
    for (int side = 0; side < SIDES; ++side)
      if (lane == 0) barrier_arrive(from[side].empty);
    #pragma unroll
    for (int side = 0; side < SIDES; ++side) {
      const int4 tile = __ldg(tiles + item / ROW_GROUPS * SIDES + side);
      barrier_wait(from[side].full, phase);
      if (tile.y > 0)
        store_item(from[side].rows, from[side].places, from[side].y, first_row_of(item, block),
                   tile, lane, thread / 32);
      __syncwarp();
    }
  }
}
"""
"""help_sides(outputs of all sides, tiles, block, thread), behind `help_source.STORE`."""

NO_HELP = r"""
__device__ __forceinline__ void help_sides(
    const Outputs (&)[SIDES], const int4*, int, int) {}
"""
