"""CUDA source that quantises k and v while blocks hold them: each value is read once.

A block has a part of a pair's keys and values, keys in registers and values in shared memory. It
gives its own largest magnitudes, waits for those of the pair's other blocks, and makes bytes.
All blocks run at once (`dependent_launch.cooperating`), or they would wait for ever.
"""

from __future__ import annotations

HELD_SOURCE = r"""
// Whether threads have as many chunks as each other, all of them of keys.
constexpr bool WHOLE = OF_PART % THREADS == 0 && OF_PART * PARTS == KEYS * CHUNKS && DEPTH == WIDE;

// Sixteen values of a row, by thread and turn of a part.
struct Item {
  int row, chunk;
  bool there;
  __device__ __forceinline__ Item(int part, int turn, int thread) {
    const int first = part * OF_PART + thread;
    row = first / CHUNKS + turn * (THREADS / CHUNKS), chunk = first % CHUNKS;
    there = turn * THREADS + thread < OF_PART && row < PADDED_KEYS;
  }
};
// words: of each block its largest magnitudes, of k in the lower half with the highest bit set, and
// behind them how many blocks of each pair have read them. The last one clears what it read.
__device__ __forceinline__ void quantise_held(
    unsigned char* smem, const void* k, const void* v, const void* places, void* kv_bytes,
    void* kv_steps, void* words, int block, int thread) {
  const int pair = block / PARTS, part = block % PARTS, lane = thread % 32;
  uint4* values = reinterpret_cast<uint4*>(smem) + thread;
  unsigned* shared = reinterpret_cast<unsigned*>(smem + TURNS * 2 * THREADS * 16);
  #pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const Item item(part, turn, thread);
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int octet = 2 * item.chunk + i;
      const bool there = WHOLE || (item.there && item.row < KEYS && octet < OCTETS);
      const uint4* from = reinterpret_cast<const uint4*>(v);
      if (there) from += place_of(pair, item.row, KEYS) + octet;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :: "r"((unsigned)__cvta_generic_to_shared(values + (2 * turn + i) * THREADS)),
                      "l"(from), "r"(there ? 16 : 0) : "memory");
    }
  }
  uint4 keys[TURNS][2];
  int place[TURNS];
  #pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const Item item(part, turn, thread);
    place[turn] = WHOLE || item.there ? __ldg(reinterpret_cast<const int*>(places) + item.row) : 0;
    const int row = WHOLE || item.there ? item.row : KEYS;
    read_chunk<!WHOLE>(keys[turn], k, pair, row, KEYS, item.chunk);
  }
  // Of the first and the second of each two values, then of both.
  unsigned most[2] = {0, 0};
  #pragma unroll
  for (int turn = 0; turn < TURNS; ++turn)
    #pragma unroll
    for (int i = 0; i < 2; ++i) most[0] = __vmaxu2(most[0], largest_pair(keys[turn][i]));
  asm volatile("cp.async.wait_all;" ::: "memory");
  #pragma unroll
  for (int i = 0; i < 2 * TURNS; ++i)
    most[1] = __vmaxu2(most[1], largest_pair(values[i * THREADS]));
  #pragma unroll
  for (int i = 0; i < 2; ++i) most[i] = __reduce_max_sync(~0u, (unsigned)largest_of(most[i]));
  if (lane == 0) shared[thread / 32] = most[0] | 0x8000 | most[1] << 16;
  __syncthreads();
  unsigned* all = reinterpret_cast<unsigned*>(words);
  if (thread < 32) {
    const auto of_lanes = [&](unsigned word) {
      const unsigned of_k = __reduce_max_sync(~0u, word & 0x7fff);
      return of_k | __reduce_max_sync(~0u, word >> 16) << 16;
    };
    const unsigned own = of_lanes(thread < THREADS / 32 ? shared[thread] : 0) | 0x8000;
    if (thread == 0)
      asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(all + block), "r"(own) : "memory");
    unsigned word;
    do {
      const unsigned* from = all + pair * PARTS + min(lane, PARTS - 1);
      asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
    } while (!__all_sync(~0u, word != 0));
    word = of_lanes(word);
    if (thread == 0) shared[32] = word;
  }
  __syncthreads();
  const float most_k = value(shared[32] & 0x7fff), most_v = value(shared[32] >> 16);
  if (part == 0 && thread < 2)
    reinterpret_cast<float*>(kv_steps)[pair * 2 + thread] = step_of(thread ? most_v : most_k);
  const float of_k = inverse_of(most_k), of_v = inverse_of(most_v);
  #pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const Item item(part, turn, thread);
    if (!WHOLE && !item.there) continue;
    const uint4 own[2] = {values[2 * turn * THREADS], values[(2 * turn + 1) * THREADS]};
    *chunk_of(kv_bytes, pair, place[turn], item.chunk, false) = as_bytes(keys[turn], of_k);
    *chunk_of(kv_bytes, pair, place[turn], item.chunk, true) = as_bytes(own, of_v);
  }
  if (thread >= 32) return;
  unsigned before = 0;
  if (thread == 0)
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(before) : "l"(all + PAIRS * PARTS + pair) : "memory");
  if (__shfl_sync(~0u, before, 0) != PARTS - 1) return;
  if (thread < PARTS) all[pair * PARTS + thread] = 0;
  if (thread == 0) all[PAIRS * PARTS + pair] = 0;
}
"""
