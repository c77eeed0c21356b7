"""CUDA source of the 2:4 sparse product: weights are wgmma's sparse A, rows of x its B.

One thread loads boxes of x by TMA and stages of weights, which lie as they are read, by plain bulk
copies. Blocks of a cluster have the same rows of x, of which each loads a part for all. Consumers
finish their sums in registers, turn some rows of y at a time in shared memory, and store them as
vectors, or by TMA while they go on.
"""

from __future__ import annotations

SOURCE = r"""
constexpr int STEPS = 2, ROW_BLOCKS = CONSUMERS * BLOCKS, A_BYTES = 2048, METADATA_BYTES = 512;
constexpr int X_STAGE = COLUMNS * 128, W_STAGE = STEPS * ROW_BLOCKS * (A_BYTES + METADATA_BYTES);
constexpr int METADATA_AT = X_STAGE + STEPS * ROW_BLOCKS * A_BYTES;
constexpr int OUT_BYTES = BITS<OUT> / 8, ROW = 64 * OUT_BYTES + (BOXED ? 0 : 16);
constexpr int ALL = BLOCKS * COLUMNS / 2, STAGED_AT = STAGES * STAGE_BYTES;
constexpr int BARRIERS_AT = STAGED_AT + CONSUMERS * PLACES * PASS * ROW;
constexpr int TABLE_AT = BARRIERS_AT + 16 * STAGES;
// Tiles that are no whole round of all clusters may be shared out in halves of their rows of y.
constexpr int WHOLE = HALVED ? ITEMS / CLUSTERS * CLUSTERS : ITEMS, HALVES = 2 * (ITEMS - WHOLE);

// Tiles of rows of y come in groups, which clusters take with one group of neighbouring tiles of
// weights after the other, a tile for each of their blocks.
struct Tile { int rows, weights; };
__device__ __forceinline__ Tile tile_of(int item, int rank) {
  constexpr int ALL_OF_GROUP = GROUP * (WEIGHT_TILES / CLUSTER);
  const int first = item / ALL_OF_GROUP * GROUP, inside = item % ALL_OF_GROUP;
  const int rows = min(GROUP, ROW_TILES - first);
  return {first + inside % rows, inside / rows * CLUSTER + rank};
}

// A block's part of the rows of x, which reaches all blocks of its cluster.
__device__ __forceinline__ void load_rows(
    unsigned to, unsigned long long x_map, int column, int row, unsigned full) {
  if constexpr (CLUSTER == 1) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3}], [%4];"
        : : "r"(to), "l"(x_map), "r"(column), "r"(row), "r"(full) : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
        : : "r"(to), "l"(x_map), "r"(column), "r"(row), "r"(full),
            "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
  }
}
// The stages of a tile, or of half of its rows of y, whose x blocks load by turns.
template <int PARTS> __device__ __forceinline__ void load_tile(
    const Ring& ring, unsigned long long x_map, const unsigned char* weight, const Tile& tile,
    int half, int rank, Place& place) {
  constexpr int OWN = COLUMNS / CLUSTER;
  const int row = tile.rows * COLUMNS + (PARTS == 1 ? rank : half) * OWN;
  const unsigned char* from = weight + (long long)tile.weights * K_STAGES * W_STAGE;
  for (int s = 0; s < K_STAGES; ++s) {
    const unsigned to = ring.stages + place.stage * STAGE_BYTES;
    const unsigned full = ring.full + 8 * place.stage;
    barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
    barrier_expect(full, X_STAGE / PARTS + W_STAGE);
    if (PARTS == 1 || s % CLUSTER == rank)
      load_rows(to + (PARTS == 1 ? rank * OWN * 128 : 0), x_map, s * (128 / SIZE), row, full);
    bulk_copy(to + X_STAGE, from + (long long)s * W_STAGE, W_STAGE, full);
    place.next();
  }
}
__device__ __forceinline__ void load_tiles(
    const Ring& ring, unsigned long long x_map, const unsigned char* weight, int block) {
  Place place;
  const int rank = block % CLUSTER, cluster = block / CLUSTER;
  for (int item = cluster; item < WHOLE; item += CLUSTERS)
    load_tile<1>(ring, x_map, weight, tile_of(item, rank), 0, rank, place);
  if constexpr (HALVED)
    if (cluster < HALVES)
      load_tile<2>(
          ring, x_map, weight, tile_of(WHOLE + cluster / 2, rank), cluster % 2, rank, place);
}

// The stage in front of a place has been read, by all blocks that it came to. Copies that come next
// are of another proxy than the reads of its metadata.
__device__ __forceinline__ void release_before(const Ring& ring, const Place& place, int thread) {
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
  __syncwarp();
  const unsigned empty = ring.empty + 8 * (place.stage ? place.stage - 1 : STAGES - 1);
  if constexpr (CLUSTER == 1) {
    if (thread % 32 == 0) barrier_arrive(empty);
  } else if (thread % 32 < CLUSTER) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there]; }"
                 : : "r"(empty), "r"(thread % 32) : "memory");
  }
}
// All threads of the blocks that share x meet.
__device__ __forceinline__ void meet() {
  if constexpr (CLUSTER == 1) {
    __syncthreads();
  } else {
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
  }
}

// Metadata of a stage. Products read it when they begin, so that it stays in registers of its own
// until they have ended: two stages by turns.
struct Metadata { unsigned word[STEPS][BLOCKS]; };
__device__ __forceinline__ void hold(const Metadata& metadata) {
  #pragma unroll
  for (int i = 0; i < STEPS * BLOCKS; ++i)
    asm volatile("" : : "r"(metadata.word[i / BLOCKS][i % BLOCKS]) : "memory");
}
// The products of a stage, and what is left of the stage before; `sums` of none are 0.
template <int PARTS> __device__ __forceinline__ void multiply_stage(
    SUM (&sums)[ALL / PARTS], Metadata& own, const Metadata& before, const Ring& ring,
    const unsigned char* smem, Place& place, bool any, int consumer, int thread) {
  const unsigned stage = ring.stages + place.stage * STAGE_BYTES;
  const unsigned char* words = smem + place.stage * STAGE_BYTES + METADATA_AT;
  barrier_wait(ring.full + 8 * place.stage, place.phase);
  #pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    #pragma unroll
    for (int b = 0; b < BLOCKS; ++b) {
      const int block = step * ROW_BLOCKS + consumer * BLOCKS + b;
      own.word[step][b] =
          *reinterpret_cast<const unsigned*>(words + block * METADATA_BYTES + thread * 4);
    }
  }
  asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
  // x in swizzled rows of 128 bytes; weights in columns of 16 bytes, 64 rows apart.
  const unsigned long long x = 1ull << 62 | 64ull << 32 | (stage & 0x3ffff) >> 4;
  #pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    #pragma unroll
    for (int b = 0; b < BLOCKS; ++b) {
      const int block = step * ROW_BLOCKS + consumer * BLOCKS + b;
      const unsigned at = stage + X_STAGE + block * A_BYTES;
      const unsigned long long a = 8ull << 32 | 64ull << 16 | (at & 0x3ffff) >> 4;
      SUM* to = sums + b * (COLUMNS / PARTS / 2);
      if constexpr (PARTS == 1) product(to, a, x + step * 4, own.word[step][b], any || step > 0);
      else HALF_PRODUCT
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
  asm volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory");
  hold(before);
}
template <int PARTS> __device__ __forceinline__ void multiply_tile(
    SUM (&sums)[ALL / PARTS], const Ring& ring, const unsigned char* smem, Place& place,
    int consumer, int thread) {
  Metadata even = {}, odd = {};
  for (int s = 0; s < K_STAGES; s += 2) {
    multiply_stage<PARTS>(sums, even, odd, ring, smem, place, s > 0, consumer, thread);
    if (s > 0) release_before(ring, place, thread);
    place.next();
    if (s + 1 == K_STAGES) break;
    multiply_stage<PARTS>(sums, odd, even, ring, smem, place, true, consumer, thread);
    release_before(ring, place, thread);
    place.next();
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
  hold(even);
  hold(odd);
  #pragma unroll
  for (int i = 0; i < ALL / PARTS; ++i) hold(sums[i]);
  release_before(ring, place, thread);
}

FINISH_TILETABLE_SOURCE// A tile, or half of its rows of y, and its outputs.
template <int PARTS> __device__ __forceinline__ void compute_tile(
    const Ring& ring, const unsigned char* smem, unsigned char* staged, const Constants& from,
    const Channels& own, const Outputs& to, const Tile& tile, int half, int consumer, int thread,
    Place& place, int& turn) {
  const int row = tile.rows * COLUMNS + half * (COLUMNS / PARTS);
  const int first = tile.weights * ROW_BLOCKS + consumer * BLOCKS;
  Terms terms[BLOCKS];  // they come while products run
  #pragma unroll
  for (int b = 0; b < BLOCKS; ++b)
    terms[b] = terms_of(from, own, (first + b) * 64 + thread / 32 * 16 + thread % 32 / 4 * 2);
  unsigned addends[RESIDUAL ? ALL / PARTS / 4 : 1] = {};
  if constexpr (RESIDUAL) read_addends<PARTS>(addends, from.residual, row, first, thread);
  SUM sums[ALL / PARTS];
  multiply_tile<PARTS>(sums, ring, smem, place, consumer, thread);
CHOICE}
__device__ __forceinline__ void multiply_tiles(
    const Ring& ring, const unsigned char* smem, unsigned char* staged, const Constants& from,
    const Outputs& to, int block, int consumer, int thread) {
  Place place;
  int turn = 0;
  const Channels own = terms_of_all(smem + TABLE_AT, from);
  const int rank = block % CLUSTER, cluster = block / CLUSTER;
  for (int item = cluster; item < WHOLE; item += CLUSTERS)
    compute_tile<1>(ring, smem, staged, from, own, to, tile_of(item, rank), 0, consumer,
                    thread, place, turn);
  if constexpr (HALVED)
    if (cluster < HALVES)
      compute_tile<2>(ring, smem, staged, from, own, to, tile_of(WHOLE + cluster / 2, rank),
                      cluster % 2, consumer, thread, place, turn);
  if constexpr (BOXED)
    if (thread == 0) asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
}

__device__ __forceinline__ Ring ring_of(const unsigned char* smem) {
  const unsigned base = (unsigned)__cvta_generic_to_shared(smem);
  return {base, base + BARRIERS_AT, base + BARRIERS_AT + 8 * STAGES};
}
// What needs nothing of the kernels before: barriers, the way to x, the table.
__device__ __forceinline__ void begin_two_four(
    unsigned char* smem, unsigned long long x_map, const Constants& from, int thread) {
  const Ring ring = ring_of(smem);
  if (thread == 0) {
    asm volatile("prefetch.tensormap [%0];" : : "l"(x_map) : "memory");
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(ring.full + 8 * s, 1);
      barrier_init(ring.empty + 8 * s, CONSUMERS * 4 * CLUSTER);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
  }
  copy_table(smem + TABLE_AT, from, thread);
  meet();
}
__device__ __forceinline__ void multiply_two_four(
    unsigned char* smem, unsigned long long x_map, const unsigned char* weight,
    const Constants& from, const Outputs& to, int block, int thread) {
  const Ring ring = ring_of(smem);
  const int consumer = __shfl_sync(0xffffffff, thread / 128, 0);  // the same in a warp
  if (consumer == CONSUMERS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(PRODUCER_REGISTERS));
    if (thread == 128 * CONSUMERS) load_tiles(ring, x_map, weight, block);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(CONSUMER_REGISTERS));
    unsigned char* staged = smem + STAGED_AT + consumer * (PLACES * PASS * ROW);
    multiply_tiles(ring, smem, staged, from, to, block, consumer, thread % 128);
  }
  if constexpr (CLUSTER > 1) {
    __syncwarp();
    meet();  // others arrive at barriers of this block
  }
}
"""
"""begin_two_four(smem, x_map, Constants, thread), by all threads of a block, and then
multiply_two_four(smem, x_map, weight, Constants, Outputs, block, thread).

FINISH_TILE stands for `finish_source.FINISH_TILE`, TABLE_SOURCE for what
`finish_source.table_source` says, CHOICE for what `finish_source.choice` says."""
