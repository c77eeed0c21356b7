"""CUDA source of products over boxes of all rows of b: the rings, who loads, and the kernel.

b comes by TMA in boxes of 64 rows and lines of 128 bytes, once for all vector rows that a block has
side by side. A lane of ldmatrix names any row that is there, so that a vector row multiplies the
rows that it has and no others. The left factor of wgmma is these rows, turned, in registers, as
`wgmma/source.py` has it; its right factor are the vectors.
"""

from __future__ import annotations

BOXES_HEADING = r"""
constexpr int TILE = 64 * TEAMS * TILES, LINES = TILE / 128, LINE_BYTES = STAGE_K * 128;
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
// Pieces of work behind the last whole round of all blocks may be of one side each.
constexpr int WHOLE = PARTED ? ITEMS / BLOCKS * BLOCKS : ITEMS;
constexpr int PIECES = WHOLE + SIDES * (ITEMS - WHOLE);
// Which item a piece of work is of, and the side that has it alone. Neighbours have columns in
// common, so that they ask for the same boxes at once.
struct Piece {
  int item, only;
  __device__ __forceinline__ bool has(int side) const { return only < 0 || only == side; }
  __device__ __forceinline__ int first_column() const { return item / GROUPS * TILE; }
  __device__ __forceinline__ int group() const { return item % GROUPS; }
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
// All rows of b of the columns of each piece of work.
__device__ __forceinline__ void load_boxes(const Ring& ring, unsigned long long map, int block) {
  BoxPlace place;
  for (int piece = block; piece < PIECES; piece += BLOCKS) {
    const int column = piece_of(piece).first_column();
    for (int s = 0; s < K_STAGES; ++s, place.next()) {
      const unsigned full = ring.full + 8 * place.stage;
      barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
      barrier_expect(full, B_STAGE);
      #pragma unroll
      for (int line = 0; line < LINES; ++line)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(ring.stages + place.stage * B_STAGE + line * LINE_BYTES), "l"(map),
                        "r"(column + line * 128), "r"(s * STAGE_K), "r"(full) : "memory");
    }
  }
}
// What a side has of a piece of work: its first stage of vectors, their number, its vector row.
__device__ __forceinline__ int4 side_of(const int4* sides, const Piece& piece, int side) {
  int4 found = __ldg(sides + piece.group() * SIDES + side);
  if (!piece.has(side)) found.y = 0;
  return found;
}
__device__ __forceinline__ void load_vectors(
    const Ring& ring, const unsigned char* values, const int4* sides, int block, int side) {
  Place place;
  for (int piece = block; piece < PIECES; piece += BLOCKS) {
    const int4 own = side_of(sides, piece_of(piece), side);
    const unsigned char* from = values + (long long)own.x * W_STAGE;
    for (int s = 0; s < own.y; ++s, place.next(), from += W_STAGE) {
      const unsigned full = ring.full + 8 * place.stage;
      barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
      barrier_expect(full, W_STAGE);
      bulk_copy(ring.stages + place.stage * W_STAGE, from, W_STAGE, full);
    }
  }
}
"""
"""Threads that load: one for boxes, one for the vectors of each side."""

BOXES_KERNEL = r"""
// Whether a block takes one piece of work after another.
constexpr bool SEVERAL = PIECES > BLOCKS;
__device__ __forceinline__ void multiply_items(
    const Ring& boxes, const Ring& vectors, unsigned char* staging, unsigned char* terms,
    const int4* sides, const Constants& from, OUT* y, int block, int group, int thread) {
  const int side = group / TEAMS, warp = group % TEAMS * 4 + thread / 32, lane = thread % 32;
  const Channels own = terms_of(from);
  unsigned char* next_terms = terms + TERM_BYTES;  // warps may still read those of an item
  Window window = {};
  Place place;
  int piece = block;
  int4 mine = side_of(sides, piece_of(piece), side);
  do {
    const int4 next = SEVERAL ? side_of(sides, piece_of(piece + BLOCKS), side) : mine;
    if (mine.y > 0) {
      int sums[TILES][TILE_SUMS];
      #pragma unroll
      for (int i = 0; i < TILES; ++i)
        #pragma unroll
        for (int j = 0; j < TILE_SUMS; ++j) sums[i][j] = start_of(own);
      const RowTerms of_rows = {reinterpret_cast<Total*>(terms)};
      of_rows.fetch(from, mine.z * VECTOR, 32 * warp + lane);
      multiply_side(sums, boxes, vectors, place, window, mine.y, warp * (TILES * 16), lane);
      #pragma unroll
      for (int i = 0; i < TILES; ++i)
        #pragma unroll
        for (int j = 0; j < TILE_SUMS; ++j) asm volatile("" : "+r"(sums[i][j]) :: "memory");
      const int column = piece_of(piece).first_column() + warp * TILES * 16;
      // A side's barrier is behind those of all warpgroups.
      finish_tile(sums, own, from, y, of_rows, staging, mine.z * VECTOR, column,
                  group * 4 + warp % 4, lane, 2 + SIDES * TEAMS + side);
      unsigned char* last = terms;
      terms = next_terms, next_terms = last;
    } else {
      window.end(boxes, lane);
    }
    mine = next;
  } while (SEVERAL && (piece += BLOCKS) < PIECES);
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
      barrier_init(boxes.empty + 8 * s, SIDES * CONSUMERS);
    }
    for (int side = 0; side < SIDES; ++side) {
      for (int s = 0; s < STAGES; ++s) {
        barrier_init(vectors_of(side).full + 8 * s, 1);
        barrier_init(vectors_of(side).empty + 8 * s, CONSUMERS);
      }
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
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
}
"""
"""multiply_sparse(smem, map of b, values, sides, Constants, y, block, thread)."""
