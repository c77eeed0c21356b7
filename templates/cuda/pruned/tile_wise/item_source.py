"""CUDA source of a cluster of blocks: its pieces of work, and copies that reach all blocks."""

from __future__ import annotations

ITEM = r"""
// The piece of work that a block's cluster has in a turn, -1 for none: long tiles come first, and
// every other turn goes backwards, so that clusters end together.
__device__ __forceinline__ int item_of(int turn, int block) {
  const int own = block / CLUSTER, item = turn * CLUSTERS + (turn % 2 ? CLUSTERS - 1 - own : own);
  return item < ITEMS ? item : -1;
}
// Clusters that follow each other have the same tile, or ACROSS tiles of the same rows.
constexpr int BAND = ACROSS * ROW_GROUPS, TILES = ITEMS / ROW_GROUPS;
__device__ __forceinline__ int across_at(int item) {
  return ACROSS == 1 ? 1 : min(ACROSS, TILES - item / BAND * ACROSS);
}
__device__ __forceinline__ int tile_at(int item) {
  return item / BAND * ACROSS + item % BAND % across_at(item);
}
__device__ __forceinline__ int first_row_of(int item, int block) {
  return (item % BAND / across_at(item) * CLUSTER + block % CLUSTER) * ROWS;
}
__device__ __forceinline__ void copy_to_all(
    unsigned to, const void* from, int bytes, unsigned full) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1], %2, [%3], %4;"
               : : "r"(to), "l"(from), "r"(bytes), "r"(full),
                   "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}
"""
"""item_of(turn, block), tile_at(item), or a group of tiles side by side, first_row_of(item, block)
and copy_to_all(to, from, bytes, barrier)."""
