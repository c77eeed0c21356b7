"""CUDA source of products over boxes of all rows of b: the rings, who loads, and the kernel.

b comes by TMA in boxes of 64 rows and lines of 128 bytes, once for all vector rows that a block has
side by side, or by multicast for those of a cluster. A lane of ldmatrix names any row that is
there, so that a vector row multiplies the rows that it has and no others. The left factor of wgmma
is these rows, turned, in registers, as `wgmma/source.py` has it; its right factor are the vectors.
"""

from __future__ import annotations

from autoq.templates.cuda.device.memory.cluster_source import MEET_CLUSTER

BOXES_HEADING = r"""
constexpr int TILE = 64 * TEAMS * TILES, LINES = TILE * SIZE / 128, LINE_BYTES = STAGE_K * 128;
constexpr int B_STAGE = LINES * LINE_BYTES, EIGHTS = VECTOR / 8;
constexpr int VALUES_BYTES = DEPTH * 32 * VECTOR, W_STAGE = VALUES_BYTES + 128;
constexpr int PLANE_SUMS = VECTOR / 2, TILE_SUMS = PLANE_SUMS;
constexpr int CONSUMERS = 4 * TEAMS;  // warps of a side

// d += a b, with four registers of each thread and a tile of shared memory.
template <int DIGIT> __device__ __forceinline__ void multiply_tile(
    int* d, const unsigned* a, unsigned long long b) {PRODUCTS
}
"""
"""What the instruction stands in."""

LOAD_BOXES = r"""
// Pieces of work behind the last whole round of all clusters may be of one side each.
constexpr int WHOLE = PARTED ? ITEMS / CLUSTERS * CLUSTERS : ITEMS;
constexpr int PIECES = WHOLE + SIDES * (ITEMS - WHOLE);
// Blocks of a cluster have the same columns, and boxes in common, or the same vectors.
constexpr int OF_BOXES = OWN_BOXES ? 1 : CLUSTER, OF_VECTORS = OWN_BOXES ? CLUSTER : 1;
// Which item a piece of work is of, and the side that has it alone.
struct Piece {
  int item, only;
  __device__ __forceinline__ bool has(int side) const { return only < 0 || only == side; }
  __device__ __forceinline__ int first_column(int block) const {
    const int panel = BY_COLUMNS ? item / GROUPS : item % PANELS;
    return (panel * OF_VECTORS + block % OF_VECTORS) * TILE;
  }
  __device__ __forceinline__ int group(int block) const {
    const int of_cluster = BY_COLUMNS ? item % GROUPS : item / PANELS;
    return of_cluster * OF_BOXES + block % OF_BOXES;
  }
};
__device__ __forceinline__ Piece piece_of(int number) {
  if (!PARTED || number < WHOLE) return {min(number, ITEMS - 1), -1};
  const int rest = min(number, PIECES - 1) - WHOLE;
  return {WHOLE + rest / SIDES, rest % SIDES};
}

// Where the ring of boxes is.
struct BoxPlace {
  int stage = 0, phase = 0;
  __device__ __forceinline__ void next() {
    if (++stage == B_STAGES) stage = 0, phase ^= 1;
  }
};
// Lanes of a warp, one for each block that loads a part of a stage, tell it that the warp left it.
template <int BLOCKS> __device__ __forceinline__ void arrive_in_all(unsigned barrier, int lane) {
  if constexpr (BLOCKS == 1) {
    if (lane == 0) barrier_arrive(barrier);
  } else if (lane < BLOCKS) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there]; }"
                 :: "r"(barrier), "r"(lane) : "memory");
  }
}
// A block's rows of a line of a stage, which reach all blocks of its cluster.
__device__ __forceinline__ void load_line(
    unsigned to, unsigned long long map, int column, int row, unsigned full) {
  if constexpr (OF_BOXES == 1)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(full) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(full),
                    "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}
// All rows of b of the columns of each piece of work.
__device__ __forceinline__ void load_boxes(const Ring& ring, unsigned long long map, int block) {
  constexpr int OWN = STAGE_K / OF_BOXES;
  const int first = block % OF_BOXES * OWN;
  BoxPlace place;
  for (int piece = block / CLUSTER; piece < PIECES; piece += CLUSTERS) {
    const int column = piece_of(piece).first_column(block);
    for (int s = 0; s < K_STAGES; ++s, place.next()) {
      const unsigned full = ring.full + 8 * place.stage;
      barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
      barrier_expect(full, B_STAGE);
      #pragma unroll
      for (int line = 0; line < LINES; ++line)
        load_line(ring.stages + place.stage * B_STAGE + line * LINE_BYTES + first * 128, map,
                  column + line * (128 / SIZE), s * STAGE_K + first, full);
    }
  }
}
__device__ __forceinline__ void copy_to_all(
    unsigned to, const void* from, int bytes, unsigned full) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1], %2, [%3], %4;"
               :: "r"(to), "l"(from), "r"(bytes), "r"(full),
                  "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}
// What a side has of a piece of work: its first stage of vectors, their number, its vector row.
__device__ __forceinline__ int4 side_of(
    const int4* sides, const Piece& piece, int block, int side) {
  int4 found = __ldg(sides + piece.group(block) * SIDES + side);
  if (!piece.has(side)) found.y = 0;
  return found;
}
__device__ __forceinline__ void load_vectors(
    const Ring& ring, const unsigned char* values, const int4* sides, int block, int side) {
  Place place;
  for (int piece = block / CLUSTER; piece < PIECES; piece += CLUSTERS) {
    const int4 own = side_of(sides, piece_of(piece), block, side);
    const unsigned char* from = values + (long long)own.x * W_STAGE;
    for (int s = 0; s < own.y; ++s, place.next(), from += W_STAGE) {
      const unsigned full = ring.full + 8 * place.stage;
      barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
      barrier_expect(full, W_STAGE);
      constexpr int SHARE = W_STAGE / OF_VECTORS;
      const int first = block % OF_VECTORS * SHARE;
      const unsigned to = ring.stages + place.stage * W_STAGE + first;
      if constexpr (OF_VECTORS == 1) bulk_copy(to, from, SHARE, full);
      else copy_to_all(to, from + first, SHARE, full);
    }
  }
}
"""
"""Threads that load: one for boxes, one for the vectors of each side."""

BOXES_KERNEL = r"""
// Whether a block takes one piece of work after another.
constexpr bool SEVERAL = PIECES > CLUSTERS;
__device__ __forceinline__ void multiply_items(
    const Ring& boxes, const Ring& vectors, unsigned char* staging, unsigned char* terms,
    const int4* sides, const Constants& from, OUT* y, int block, int group, int thread) {
  const int side = group / TEAMS, warp = group % TEAMS * 4 + thread / 32, lane = thread % 32;
  const Channels own = terms_of(from);
  unsigned char* next_terms = terms + TERM_BYTES;  // warps may still read those of an item
  Window window = {};
  Place place;
  int piece = block / CLUSTER;
  int4 mine = side_of(sides, piece_of(piece), block, side);
  do {
    const int4 next =
        SEVERAL ? side_of(sides, piece_of(piece + CLUSTERS), block, side) : mine;
    if (mine.y > 0) {
      int sums[TILES][TILE_SUMS];
      #pragma unroll
      for (int i = 0; i < TILES; ++i)
        #pragma unroll
        for (int j = 0; j < TILE_SUMS; ++j) sums[i][j] = start_of(own);
      const RowTerms of_rows = {reinterpret_cast<Total*>(terms)};
      of_rows.fetch(from, mine.z * VECTOR, 32 * warp + lane);
      multiply_side(sums, boxes, vectors, place, window, mine.y, warp * (TILES * 16 * SIZE), lane);
      #pragma unroll
      for (int i = 0; i < TILES; ++i)
        #pragma unroll
        for (int j = 0; j < TILE_SUMS; ++j) asm volatile("" : "+r"(sums[i][j]) :: "memory");
      const int column = piece_of(piece).first_column(block) + warp * TILES * 16;
      // A side's barrier is behind those of all warpgroups.
      finish_tile(sums, own, from, y, of_rows, staging, mine.z * VECTOR, column,
                  group * 4 + warp % 4, lane, 2 + SIDES * TEAMS + side);
      unsigned char* last = terms;
      terms = next_terms, next_terms = last;
    } else {
      window.end(boxes, lane);
    }
    mine = next;
  } while (SEVERAL && (piece += CLUSTERS) < PIECES);
}

__device__ __forceinline__ void multiply_sparse(
    unsigned char* smem, unsigned long long map, const int* values, const int* sides,
    const Constants& from, OUT* y, int block, int thread) {
  unsigned base;  // kept in a register
  asm volatile("mov.u32 %0, %1;" : "=r"(base) : "r"((unsigned)__cvta_generic_to_shared(smem)));
  constexpr int VECTORS_AT = B_STAGES * B_STAGE;
  constexpr int STAGING_AT = VECTORS_AT + SIDES * STAGES * W_STAGE;
  constexpr int TERMS_AT = STAGING_AT + SIDES * TEAMS * STAGING_BYTES;
  constexpr int BARRIERS_AT = TERMS_AT + SIDES * 2 * TERM_BYTES;
  const int4* all_sides = reinterpret_cast<const int4*>(sides);
  const Ring boxes = {base, base + BARRIERS_AT, base + BARRIERS_AT + 8 * B_STAGES};
  const auto vectors_of = [&](int side) {
    const unsigned full = base + BARRIERS_AT + 16 * (B_STAGES + side * STAGES);
    return Ring{base + VECTORS_AT + side * (STAGES * W_STAGE), full, full + 8 * STAGES};
  };
  if (thread == 0) {
    for (int s = 0; s < B_STAGES; ++s) {
      barrier_init(boxes.full + 8 * s, 1);
      barrier_init(boxes.empty + 8 * s, SIDES * CONSUMERS * OF_BOXES);
    }
    for (int side = 0; side < SIDES; ++side) {
      for (int s = 0; s < STAGES; ++s) {
        barrier_init(vectors_of(side).full + 8 * s, 1);
        barrier_init(vectors_of(side).empty + 8 * s, CONSUMERS * OF_VECTORS);
      }
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  MEET_CLUSTER
  const int group = __shfl_sync(0xffffffff, thread / 128, 0);  // the same in a warp
  if (group == SIDES * TEAMS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(PRODUCER_REGISTERS));
    const int warp = thread % 128 / 32;
    const unsigned char* all_values = reinterpret_cast<const unsigned char*>(values);
    if (thread % 32 == 0) {
      if (warp == 0) load_boxes(boxes, map, block);
      else if (warp <= SIDES)
        load_vectors(vectors_of(warp - 1), all_values, all_sides, block, warp - 1);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(CONSUMER_REGISTERS));
    const int side = group / TEAMS;
    multiply_items(
        boxes, vectors_of(side), smem + STAGING_AT + group * STAGING_BYTES,
        smem + TERMS_AT + side * (2 * TERM_BYTES), all_sides, from, y, block, group, thread % 128);
  }
  if constexpr (CLUSTER > 1) {  // others arrive at barriers of this block
    __syncwarp();
    MEET_CLUSTER
  }
}
""".replace("MEET_CLUSTER", MEET_CLUSTER)
"""multiply_sparse(smem, map of b, values, sides, Constants, y, block, thread)."""
