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
// The largest magnitude among those of all blocks of a pair, of which each gives its own. pairs: of
// the first and the second of each two values of a thread. shared: a word of each warp, and one of
// all. words: one of each block, 0 until it is there.
__device__ __forceinline__ float largest_of_blocks(
    unsigned pairs, unsigned* shared, unsigned* words, int part, int thread) {
  constexpr unsigned THERE = 0x8000;
  const int lane = thread % 32;
  const unsigned own = __reduce_max_sync(~0u, (unsigned)largest_of(pairs));
  if (lane == 0) shared[thread / 32] = own;
  __syncthreads();
  if (thread < 32) {
    const unsigned of_block =
        __reduce_max_sync(~0u, thread < THREADS / 32 ? shared[thread] : 0) | THERE;
    if (thread == 0)
      asm volatile("st.relaxed.gpu.global.u32 [%0], %1;"
                   :: "l"(words + part), "r"(of_block) : "memory");
    unsigned word;
    do {
      asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                   : "=r"(word) : "l"(words + min(lane, PARTS - 1)) : "memory");
    } while (!__all_sync(~0u, word != 0));
    word = __reduce_max_sync(~0u, word);
    if (thread == 0) shared[32] = word & ~THERE;
  }
  __syncthreads();
  return value(shared[32]);
}

// words: largest magnitudes of blocks, of keys, then of values, and behind them how many blocks of
// each pair have read them. The last one clears what it read. Keys become bytes while values come.
__device__ __forceinline__ void quantise_held(
    unsigned char* smem, const void* k, const void* v, const void* places, void* kv_bytes,
    void* kv_steps, void* words, int block, int thread) {
  const int pair = block / PARTS, part = block % PARTS;
  uint4* values = reinterpret_cast<uint4*>(smem) + thread;
  unsigned* shared = reinterpret_cast<unsigned*>(smem + TURNS * 2 * THREADS * 16);
  uint4 keys[TURNS][2];
  int place[TURNS];
  #pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const Item item(part, turn, thread);
    const int row = WHOLE || item.there ? item.row : KEYS;
    read_chunk<!WHOLE>(keys[turn], k, pair, row, KEYS, item.chunk);
  }
  #pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const Item item(part, turn, thread);
    place[turn] = WHOLE || item.there ? __ldg(reinterpret_cast<const int*>(places) + item.row) : 0;
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
  const auto put = [&](const uint4 (&halves)[2], int turn, int first, float inverse) {
    const Item item(part, turn, thread);
    if (!WHOLE && !item.there) return;
    uint4* to = reinterpret_cast<uint4*>(kv_bytes);
    to += ((long long)pair * PADDED_KEYS + place[turn]) * UNITS;
    to[(first + item.chunk) ^ place[turn] % 8] = as_bytes(halves, inverse);
  };
  unsigned* of_keys = reinterpret_cast<unsigned*>(words) + pair * PARTS;
  unsigned* of_values = of_keys + PAIRS * PARTS;
  unsigned most = 0;
  #pragma unroll
  for (int i = 0; i < 2 * TURNS; ++i) most = __vmaxu2(most, largest_pair(keys[i / 2][i % 2]));
  const float most_k = largest_of_blocks(most, shared, of_keys, part, thread);
  const float of_k = inverse_of(most_k);
  #pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) put(keys[turn], turn, 0, of_k);
  asm volatile("cp.async.wait_all;" ::: "memory");
  most = 0;
  #pragma unroll
  for (int i = 0; i < 2 * TURNS; ++i) most = __vmaxu2(most, largest_pair(values[i * THREADS]));
  const float most_v = largest_of_blocks(most, shared, of_values, part, thread);
  const float of_v = inverse_of(most_v);
  #pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const uint4 own[2] = {values[2 * turn * THREADS], values[(2 * turn + 1) * THREADS]};
    put(own, turn, CHUNKS, of_v);
  }
  if (part == 0 && thread < 2)
    reinterpret_cast<float*>(kv_steps)[pair * 2 + thread] = step_of(thread ? most_v : most_k);
  if (thread >= 32) return;
  unsigned* readers = reinterpret_cast<unsigned*>(words) + 2 * PAIRS * PARTS + pair;
  unsigned before = 0;
  if (thread == 0)
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(before) : "l"(readers) : "memory");
  if (__shfl_sync(~0u, before, 0) != PARTS - 1) return;
  if (thread < PARTS) of_keys[thread] = of_values[thread] = 0;
  if (thread == 0) *readers = 0;
}
"""
