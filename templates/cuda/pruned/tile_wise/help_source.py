"""CUDA source of a block's helpers: they turn x, and store outputs while others multiply.

Where they turn, blocks of x, of 128 rows and 128 bytes, are handed out by a counter in the order of
k, so that whoever runs turns all of them, and the first rows to be gathered are there first. A
count for each 128 bytes of k says how many of its blocks have been turned. Behind that the helpers
take finished rows of outputs, which consumers leave in shared memory, to their places in y.
"""

from __future__ import annotations

SHARED = r"""
constexpr int CHUNKS = ACROSS, DOWN = (PITCH + 127) / 128, COUNTS = 2;
"""
"""How x is turned."""

ROWS_OF = r"""
// 16 rows of y, and how many of them there are.
struct Rows { int first, count; };
__device__ __forceinline__ Rows rows_of(int first_row, int own_row) {
  return {first_row + own_row, min(16, M - first_row - own_row)};
}
"""
"""Rows of a piece of work that follow each other."""

OUTPUTS = r"""
// Where consumers leave the rows that they have finished, and where these go.
struct Outputs {
  unsigned* rows;
  const void* places;
  OUT* y;
  unsigned full, empty;
  int phase;
};
"""
"""What blocks have with helpers and without."""

TURNED = r"""
// Of those who gather: how many of the first 128 bytes of k are known to be turned.
struct Turned {
  const int* counts;
  int ready = 0;
  __device__ __forceinline__ Turned(const int* progress) : counts(progress + COUNTS) {}
  __device__ __forceinline__ void await(int row, int lane_of_last, int lane) {
    const int needed = __shfl_sync(0xffffffff, row, lane_of_last) * SIZE / 128;
    while (ready <= needed) {
      int count = 0;
      if (ready + lane < CHUNKS)
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                     : "=r"(count) : "l"(counts + ready + lane) : "memory");
      const unsigned missing = __ballot_sync(0xffffffff, count != DOWN);
      ready += __popc(~missing & missing - 1);  // chunks in front of the first that is missing
      if constexpr (BULK > 0) asm volatile("fence.proxy.async;" : : : "memory");
      __syncwarp();
    }
  }
};
"""
"""Turned, which those who gather wait for."""

STORE = r"""
// All rows of a piece of work, the words that the tile's entries name.
__device__ __forceinline__ void store_item(
    const unsigned* rows, const void* entries, OUT* y, int first_row, const int4& tile, int lane,
    int warp) {
  constexpr int TOGETHER = 8;  // rows that a lane reads before it writes
  const int count = min(ROWS, M - first_row), whole = whole_words(tile);
  unsigned* first = reinterpret_cast<unsigned*>(y) + first_row * ROW_WORDS;
  const int4* own_entries = static_cast<const int4*>(entries) + tile.z;
  const auto entry_of = [&](int e) {
    const int at = e + (lane & lanes_across(whole - e) - 1);
    return at >= 0 && at < whole ? __ldg(own_entries + at) : int4{0, 0, 0, -1};
  };
  // Lanes of a warp have words of the same 128 bytes of y.
  const int begin = whole ? -(__ldg(own_entries).x & 31) : 0;
  int4 entry = entry_of(begin), next;
  for (int e = begin; e < whole; e += 32, entry = next) {
    const int across = lanes_across(whole - e), step = 4 * (32 / across);
    next = entry_of(e + 32);
    if (entry.w < 0) continue;
    #pragma unroll 1
    for (int r = warp * (32 / across) + lane / across; r < count; r += TOGETHER * step) {
      unsigned word[TOGETHER];
      #pragma unroll
      for (int i = 0; i < TOGETHER; ++i)
        if (r + i * step < count) word[i] = word_of(rows + (r + i * step) * ROW_PITCH, entry);
      #pragma unroll
      for (int i = 0; i < TOGETHER; ++i)
        if (r + i * step < count) __stcs(first + (r + i * step) * ROW_WORDS + entry.x, word[i]);
    }
  }
  if (lane / 16 >= shared_words(tile)) return;
  const int4 own = __ldg(static_cast<const int4*>(entries) + tile.z + whole + lane / 16);
  for (int r = warp * 16 + lane % 16; r < count; r += 64)
    store_bytes(first + r * ROW_WORDS, rows + r * ROW_PITCH, own);
}

// Rows are handed over by barriers: consumers fill them, helpers empty them.
__device__ __forceinline__ void finish_item(
    const SUM (&sums)[ALL], Outputs& to, const int* terms, const Constants& from, const int4& tile,
    int first_row, int own_row, int lane) {
  barrier_wait(to.empty, to.phase);
  #pragma unroll
  for (int b = 0; b < BLOCKS_M; ++b)
    lay_out(sums + b * (WIDTH / 2), to.rows + (own_row + b * 64) * ROW_PITCH, terms, from, lane);
  __syncwarp();
  if (lane == 0) barrier_arrive(to.full);
  to.phase ^= 1;
}
"""
"""store_item of helpers, and finish_item of those whose outputs they store."""

HELP = r"""
__device__ __forceinline__ void helpers_meet() { asm volatile("bar.sync 8, 128;" : : : "memory"); }

// A block is claimed while the two before it are turned and read.
__device__ __forceinline__ void turn_blocks(
    const unsigned char* x, void* turned, int* progress, unsigned* tile, int* claimed,
    int thread) {
  int upcoming = 0;
  if (thread == 0) *claimed = atomicAdd(progress, 1), upcoming = atomicAdd(progress, 1);
  helpers_meet();
  int block = *claimed;
  helpers_meet();
  uint4 held[UNITS];
  if (block < CHUNKS * DOWN)
    load_units(held, x, block % DOWN * 128, block / DOWN * 128, thread);
  while (block < CHUNKS * DOWN) {
    lay_units(held, tile, thread);
    if (thread == 0) *claimed = upcoming, upcoming = atomicAdd(progress, 1);
    helpers_meet();
    const int next = *claimed;
    if (next < CHUNKS * DOWN) load_units(held, x, next % DOWN * 128, next / DOWN * 128, thread);
    write_turned(tile, turned, block % DOWN * 128, block / DOWN * 128, thread);
    if constexpr (BULK > 0) asm volatile("fence.proxy.async;" : : : "memory");
    helpers_meet();
    if (thread == 96)
      asm volatile("fence.acq_rel.gpu; red.relaxed.gpu.global.add.s32 [%0], 1;"
                   : : "l"(progress + COUNTS + block / DOWN) : "memory");
    block = next;
  }
}

__device__ __forceinline__ void help(
    Outputs& from, const unsigned char* x, void* turned, int* progress, int* claimed,
    const int4* tiles, int block, int thread) {
  const int lane = thread % 32;
  if constexpr (FUSED) turn_blocks(x, turned, progress, from.rows, claimed, thread);
  for (int turn = 0; turn * CLUSTERS < ITEMS; ++turn) {
    const int item = item_of(turn, block);
    const int4 tile = item < 0 ? int4{} : __ldg(tiles + item / ROW_GROUPS);
    if (tile.w == 0) continue;
    if (lane == 0) barrier_arrive(from.empty);
    barrier_wait(from.full, from.phase);
    store_item(from.rows, from.places, from.y, first_row_of(item, block), tile, lane, thread / 32);
    from.phase ^= 1;
    __syncwarp();
  }
  if constexpr (!FUSED) return;
  helpers_meet();
  if (thread >= 32) return;
  int ended = 0;  // whoever is last leaves zeros
  if (lane == 0) {
    asm volatile("fence.acq_rel.gpu;" : : : "memory");
    ended = atomicAdd(progress + 1, 1);
  }
  if (__shfl_sync(0xffffffff, ended, 0) == CLUSTERS * CLUSTER - 1)
    for (int i = lane; i < COUNTS + CHUNKS; i += 32) progress[i] = 0;
}
"""
"""help, behind `STORE`; they need `turn.TURN_UNITS` and `words_source.WORDS`."""

THERE = r"""
struct Turned {
  __device__ __forceinline__ Turned(const int*) {}
  __device__ __forceinline__ void await(int, int, int) {}
};
"""
"""x is turned before the kernel starts."""

ALONE = r"""
__device__ __forceinline__ void finish_item(
    const SUM (&sums)[ALL], Outputs& to, const int* terms, const Constants& from, const int4& tile,
    int first_row, int own_row, int lane) {
  unsigned* rows = to.rows + threadIdx.x / 32 * (16 * ROW_PITCH);
  #pragma unroll
  for (int b = 0; b < BLOCKS_M; ++b) {
    const int4 entry = read_entry(to.places, tile, lane);
    __syncwarp();
    lay_out(sums + b * (WIDTH / 2), rows, terms, from, lane);
    __syncwarp();
    const Rows own = rows_of(first_row, own_row + b * 64);
    store_rows(rows, from, to.places, entry, to.y, own.first, own.count, tile, lane);
  }
}
__device__ __forceinline__ void help(
    Outputs&, const unsigned char*, void*, int*, int*, const int4*, int, int) {}
"""
"""The same of blocks without helpers, whose consumers store what they have multiplied."""
