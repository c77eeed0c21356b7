"""CUDA source of the ring of keys: blocks of them come by bulk copies, or by copies of threads.

With bulk copies nothing holds all warps of a block together: each waits for a block of keys, and
the last one to leave a block sends for another into its place. Without, a barrier of all threads
parts one time from the next.
"""

from __future__ import annotations

RING_SOURCE = r"""
constexpr int SLOT_BYTES = SLOT * ROW_BYTES, WINDOW = SLOTS - AHEAD;

__device__ __forceinline__ void copy_later(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}

// A block of keys with their values, of the pair of an item.
__device__ __forceinline__ const uint4* keys_of(const void* bytes, int item, int number) {
  const long long before = (long long)(item / PARTS_OF_QUERIES) * KEY_BLOCKS + number;
  return reinterpret_cast<const uint4*>(bytes) + before * (SLOT_BYTES / 16);
}
// The keys and values of all pairs, and where in shared memory the block's item lies: read anew
// each time, it takes no register.
struct Source {
  const void* bytes;
  unsigned at;
  __device__ __forceinline__ int item() const {
    int found;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(found) : "r"(at) : "memory");
    return found;
  }
  __device__ __forceinline__ const uint4* of(int number) const {
    return keys_of(bytes, item(), number);
  }
};
// Where the ring lies, then for each slot a barrier that opens when its keys are there, then one at
// which warps arrive that leave it.
struct Ring {
  unsigned keys, full, left;
  __device__ __forceinline__ unsigned slot(int number) const {
    return keys + number % SLOTS * SLOT_BYTES;
  }
};

// One thread sends for a block of keys and values, which lie together.
__device__ __forceinline__ void send_for(const Ring& ring, const uint4* from, int number) {
  const unsigned full = ring.full + number % SLOTS * 8;
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
               ::"r"(full), "r"(SLOT_BYTES) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1], %2, [%3];"
               ::"r"(ring.slot(number)), "l"(from),
                 "r"(SLOT_BYTES), "r"(full) : "memory");
}
// All threads copy their pieces of a block of keys.
__device__ __forceinline__ void load_slot(
    const Ring& ring, const uint4* of_block, int number, int thread) {
  constexpr int PIECES = SLOT_BYTES / 16;
  if (number < KEY_BLOCKS) {
    asm volatile("" : "+r"(thread));  // as with a block's place
    const unsigned to = ring.slot(number) + thread * 16;
    const uint4* from = of_block + thread;
    #pragma unroll
    for (int i = 0; i < PIECES; i += THREADS) {
      if (i + THREADS <= PIECES || thread < PIECES - i) copy_later(to + i * 16, from + i);
    }
  }
  asm volatile("cp.async.commit_group;" ::);
}

// Before the first time, and before a barrier of all threads.
__device__ __forceinline__ void open_ring(
    const Ring& ring, const Source& kv, int item, int thread) {
  if (thread == 0)
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(kv.at), "r"(item) : "memory");
  if constexpr (!BULK) {
    #pragma unroll 1
    for (int i = 0; i < AHEAD; ++i) load_slot(ring, keys_of(kv.bytes, item, i), i, thread);
    return;
  }
  if (thread == 0) {
    #pragma unroll 1
    for (int i = 0; i < SLOTS; ++i) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(ring.full + i * 8) : "memory");
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(ring.left + i * 8), "n"(WARPS)
                   : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    #pragma unroll 1
    for (int i = 0; i < SLOTS && i < KEY_BLOCKS; ++i)
      send_for(ring, keys_of(kv.bytes, item, i), i);
  }
}
// Waits for the newest block of keys of a time.
__device__ __forceinline__ void enter(const Ring& ring, const Source& kv, int time, int thread) {
  if constexpr (BULK) {
    unsigned done = 0;
    while (!done)
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                   " selp.u32 %0, 1, 0, p; }"
                   : "=r"(done) : "r"(ring.full + time % SLOTS * 8), "r"(time / SLOTS & 1)
                   : "memory");
  } else {
    asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1));
    __syncthreads();
    load_slot(ring, kv.of(time + AHEAD), time + AHEAD, thread);
  }
}
// A warp is done with the oldest block of keys of a time: how many are not, itself among them, in
// lane 0. An arrival releases what the warp has read; an atomic addition that does so would wait
// for all of its loads.
__device__ __forceinline__ unsigned leave(const Ring& ring, int time, int lane) {
  unsigned staying = 0;
  if constexpr (BULK) {
    // Its place is found anew: what waited for its keys would keep a register until here.
    asm volatile("" : "+r"(time));
    __syncwarp();
    if (lane == 0)
      asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%1];"
                   " mbarrier.pending_count.b64 %0, state; }"
                   : "=r"(staying) : "r"(ring.left + time % SLOTS * 8) : "memory");
  }
  return staying;
}
// The last warp to leave sends for another block of keys, a time later: the count is there by then.
__device__ __forceinline__ void replace(
    const Ring& ring, const Source& kv, int time, unsigned staying, int lane) {
  if constexpr (!BULK) return;
  const int next = time + 1 + AHEAD;
  if (lane == 0 && staying == 1 && time >= WINDOW - 1 && next < KEY_BLOCKS) {
    // All have arrived: what the others released is acquired.
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%0], %1; }"
                 ::"r"(ring.left + time % SLOTS * 8), "r"(time / SLOTS & 1) : "memory");
    send_for(ring, kv.of(next), next);
  }
}
"""
