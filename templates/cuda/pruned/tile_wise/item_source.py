"""CUDA source of a cluster of blocks: its pieces of work, and copies that reach all blocks."""

from __future__ import annotations

ITEM = r"""
// The piece of work that a block's cluster has in a turn, -1 for none: long tiles come first, and
// every other turn goes backwards, so that clusters end together.
__device__ __forceinline__ int item_of(int turn, int block) {
  const int own = block / CLUSTER, item = turn * CLUSTERS + (turn % 2 ? CLUSTERS - 1 - own : own);
  return item < ITEMS ? item : -1;
}
__device__ __forceinline__ int first_row_of(int item, int block) {
  return (item % ROW_GROUPS * CLUSTER + block % CLUSTER) * ROWS;
}
__device__ __forceinline__ void copy_to_all(
    unsigned to, const void* from, int bytes, unsigned full) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1], %2, [%3], %4;"
               : : "r"(to), "l"(from), "r"(bytes), "r"(full),
                   "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}
"""
"""item_of(turn, block), first_row_of(item, block) and copy_to_all(to, from, bytes, barrier)."""
