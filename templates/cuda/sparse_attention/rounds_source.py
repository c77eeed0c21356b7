"""CUDA source of blocks that make bytes of keys and values, then attend to one or two items.

The code of an item is there twice: a loop over both takes 3.5 of 157 us longer on an H200, though
ptxas makes the same of its steps.
"""

from __future__ import annotations

ROUNDS_SOURCE = r"""
// An item of a block that has others before it or behind it. words: as those of `Shares`.
struct Round {
  const void* kv_bytes;
  unsigned* words;
  int item;
  __device__ __forceinline__ void start(const Places& places, int thread) const {
    await_pair(words, item / PARTS_OF_QUERIES);
    open_ring(places.ring(), places.source(kv_bytes), item, thread);
  }
  __device__ __forceinline__ void go(int thread) const {
    __syncthreads();
    // All warps of the block have seen what they wait for.
    if (item + BLOCKS >= ITEMS && thread / 32 == WARPS - 1) leave_words<BLOCKS>(words, thread % 32);
  }
};
// All warps are done with the ring and with their queries.
__device__ __forceinline__ void close_ring(const Ring& ring, int thread) {
  __syncthreads();
  if (thread != 0) return;
  #pragma unroll 1
  for (int i = 0; i < SLOTS; ++i) {
    asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(ring.full + i * 8) : "memory");
    asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(ring.left + i * 8) : "memory");
  }
}

__device__ __forceinline__ int hidden(int number) {
  asm volatile("" : "+r"(number));
  return number;
}
__device__ __forceinline__ void quantise_and_attend(
    unsigned char* smem, const void* q, const void* k, const void* v, const void* places_of,
    const void* order, const void* firsts, const void* words_of, const void* scale, void* y,
    void* kv_bytes, void* kv_steps, void* meeting, int block, int thread) {
  const Places places{smem};
  const Schedule schedule{
      reinterpret_cast<const int*>(order), reinterpret_cast<const unsigned*>(firsts),
      reinterpret_cast<const unsigned*>(words_of)};
  unsigned* words = reinterpret_cast<unsigned*>(meeting);
  Begin begin;
  // Asked where all blocks are of teams as well: ptxas knows then that a warp's lanes are together
  // behind it, and takes places that they share for uniform.
  if (hidden(block) < TEAMS * TEAM) {
    // What blocks find lies where queries do later, and what they hold in the ring.
    const Shares shares(smem + Q_BYTES, smem, words, k, v, places_of, kv_bytes, kv_steps, block,
                        thread);
    begin.find(schedule, block, thread / 32, thread % 32);
    shares.start();
    shares.make_bytes();
  } else {
    begin.find(schedule, block, thread / 32, thread % 32);
  }
  // On their way while other blocks' bytes come to be seen.
  begin.read<true>(q, schedule, block, thread % 32);
  attend_item(begin, places, kv_bytes, kv_steps, schedule, scale, y, block, thread,
              Round{kv_bytes, words, block});
  if constexpr (ITEMS > BLOCKS) {
    static_assert(ITEMS <= 2 * BLOCKS, "a block has two items at most");
    // Read anew: what is known of the first item would take registers throughout it.
    const int item = places.source(kv_bytes).item() + BLOCKS;
    if (item >= ITEMS) return;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    begin.find(schedule, item, thread / 32, thread % 32);
    begin.read<true>(q, schedule, item, thread % 32);
    close_ring(places.ring(), thread);
    attend_item(begin, places, kv_bytes, kv_steps, schedule, scale, y, item, thread,
                Round{kv_bytes, words, item});
  }
}
"""
"""All of attention in one kernel."""
