"""CUDA source of a ring of stages: gathered rows of x transposed, and their weights.

Four warps gather. A row comes by one bulk copy, or each of its 16-byte pieces by a thread.
"""

from __future__ import annotations

GATHER = r"""
constexpr int X_STAGE = X_STAGE_BYTES, W_STAGE = STAGE_ROWS * SIZE * WIDTH;
constexpr int STAGE_BYTES = X_STAGE + W_STAGE;
// Stages that threads copy and have not announced: consumers leave one when they have the next.
constexpr int LAG = STAGES > 4 ? STAGES - 3 : (STAGES - 1) / 2;

__device__ __forceinline__ void copy_piece(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
}

// The piece of work that a block has in a turn, -1 for none: long tiles come first, and every
// other turn goes backwards, so that blocks end together.
__device__ __forceinline__ int item_of(int turn, int block) {
  const int item = turn * GRID + (turn % 2 ? GRID - 1 - block : block);
  return item < ITEMS ? item : -1;
}

// The stages of a block, one after the other.
struct Stages {
  const int4* tiles;
  int turn, block, stage, last;
  unsigned columns;  // byte where the rows of x that the item computes begin
  bool more;
  __device__ __forceinline__ Stages(const int4* given, int own) {
    tiles = given, turn = -1, block = own, stage = last = 0, columns = 0, more = true;
    find();
  }
  __device__ __forceinline__ void next() {
    if (++stage == last) find();
  }
  // The first stage of the next item that has any.
  __device__ __forceinline__ void find() {
    while ((++turn) * GRID < ITEMS) {
      const int item = item_of(turn, block);
      if (item < 0) continue;
      const int4 tile = __ldg(tiles + item / ROW_TILES);
      if (tile.y == 0) continue;
      stage = tile.x, last = tile.x + tile.y;
      columns = item % ROW_TILES * (ROWS * SIZE);
      return;
    }
    more = false;
  }
};

__device__ __forceinline__ void gather_tiles(
    const Ring& ring, const unsigned char* x, const int* rows, const unsigned char* values,
    const int4* tiles, int block, int thread) {
  // What a thread copies of a stage: every fourth row of its warp, or pieces of rows.
  constexpr int ROW = ROWS * SIZE, PIECES = BULK ? 1 : ROW / 16, COPY = ROW / PIECES;
  constexpr int EACH = (STAGE_ROWS * PIECES + 127) / 128;
  const int own = BULK ? thread % 32 * 4 + thread / 32 : thread;
  Place place;
  int count = 0, row[EACH];
  Stages ahead(tiles, block);
  const auto read_rows = [&] {
    #pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int at = (own + 128 * i) / PIECES;
      if (at < STAGE_ROWS) row[i] = __ldg(rows + ahead.stage * STAGE_ROWS + at);
    }
  };
  if (ahead.more) read_rows();
  while (ahead.more) {
    const int stage = ahead.stage;
    unsigned from[EACH];
    #pragma unroll
    for (int i = 0; i < EACH; ++i) from[i] = ahead.columns + row[i] * (unsigned)(PITCH * SIZE);
    ahead.next();
    if (ahead.more) read_rows();  // a stage ahead: they come from the L2
    const unsigned to = ring.stages + place.stage * STAGE_BYTES;
    const unsigned full = ring.full + 8 * place.stage;
    barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
    if (thread == 0) {
      barrier_expect(full, W_STAGE + (BULK ? STAGE_ROWS * ROW : 0));
      bulk_copy(to + X_STAGE, values + (long long)stage * W_STAGE, W_STAGE, full);
    }
    #pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int at = own + 128 * i;
      const unsigned own_to = to + at / PIECES * X_ROW_BYTES + at % PIECES * COPY;
      if (at / PIECES >= STAGE_ROWS) continue;
      const unsigned char* own_from = x + (from[i] + at % PIECES * COPY);
      if constexpr (BULK) bulk_copy(own_to, own_from, ROW, full);
      else copy_piece(own_to, own_from);
    }
    if constexpr (!BULK) {
      asm volatile("cp.async.commit_group;" : : : "memory");
      if (count >= LAG) {
        asm volatile("cp.async.wait_group %0;" : : "n"(LAG) : "memory");
        barrier_arrive(ring.full + 8 * ((count - LAG) % STAGES));
      }
    }
    ++count;
    place.next();
  }
  if constexpr (!BULK) {
    asm volatile("cp.async.wait_group 0;" : : : "memory");
    for (int i = count < LAG ? 0 : count - LAG; i < count; ++i)
      barrier_arrive(ring.full + 8 * (i % STAGES));
  }
}
"""
"""gather_tiles(ring, x, rows, values, tiles, block, thread) of the 128 threads that gather."""
