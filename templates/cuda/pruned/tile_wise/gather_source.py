"""CUDA source of a ring of stages: gathered rows of x transposed, and their weights.

Four warps gather. A row comes by one bulk copy, or each of its 16-byte pieces by a thread.
"""

from __future__ import annotations

GATHER = r"""
constexpr int X_STAGE = X_STAGE_BYTES, W_STAGE = STAGE_ROWS * SIZE * WIDTH;
constexpr int STAGE_BYTES = X_STAGE + W_STAGE;
__device__ __forceinline__ void copy_piece(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
}

// The stages of a block, one after the other. The next tile is read while one has stages.
struct Stages {
  const int4* tiles;
  int turn, block, stage, last;
  int2 upcoming;    // first stage of the next turn's tile, and their number
  unsigned columns;  // byte where the rows of x that the item computes begin
  bool more;
  __device__ __forceinline__ Stages(const int4* given, int own) {
    tiles = given, turn = -1, block = own, stage = last = 0, columns = 0, more = true;
    read_tile();
    find();
  }
  __device__ __forceinline__ void read_tile() {
    const int item = item_of(turn + 1, block);
    upcoming = item < 0 ? int2{} : __ldg(reinterpret_cast<const int2*>(tiles + item / ROW_GROUPS));
  }
  __device__ __forceinline__ void next() {
    if (++stage == last) find();
  }
  // The first stage of the next item that has any.
  __device__ __forceinline__ void find() {
    while ((++turn) * CLUSTERS < ITEMS) {
      stage = upcoming.x, last = upcoming.x + upcoming.y;
      read_tile();
      if (stage == last) continue;
      columns = first_row_of(item_of(turn, block), block) * SIZE;
      return;
    }
    more = false;
  }
};

// A stage is announced by its copies as they end, so that all stages may be under way. A lane reads
// the number of one row of its warp: those of some stages together, HELD times as many ahead.
__device__ __forceinline__ void gather_tiles(
    const Ring& ring, const unsigned char* x, const int* rows, const unsigned char* values,
    const int4* tiles, const int* progress, int block, int thread) {
  constexpr int ROW = ROWS * SIZE, CHUNKS = ROW / 16, OWN_ROWS = STAGE_ROWS / 4;
  constexpr int BULK_ROWS = OWN_ROWS * BULK / 4, PIECES = (OWN_ROWS - BULK_ROWS) * CHUNKS / 32;
  constexpr int TOGETHER = 32 / OWN_ROWS, HELD = 4;
  constexpr int BATCH = PIECES % 8 == 0 ? 8 : PIECES % 4 == 0 ? 4 : PIECES % 2 == 0 ? 2 : 1;
  constexpr bool EVEN = 32 % CHUNKS == 0;  // a lane copies the same bytes of all of its rows
  const int lane = thread % 32, first = thread / 32 * OWN_ROWS;
  const int first_own = lane / CHUNKS, own_byte = lane % CHUNKS * 16;
  const auto row_of = [&](int i) {
    return BULK_ROWS + (EVEN ? i * (32 / CHUNKS) + first_own : (i * 32 + lane) / CHUNKS);
  };
  const auto byte_of = [&](int i) { return EVEN ? own_byte : (i * 32 + lane) % CHUNKS * 16; };
  Place place;
  Turned turned(progress);
  Stages now(tiles, block), ahead(tiles, block);
  int row[HELD];
  const auto read_rows = [&](int& to) {
    int stage = -1;
    #pragma unroll
    for (int i = 0; i < TOGETHER; ++i) {
      if (!ahead.more) break;
      if (lane / OWN_ROWS == i) stage = ahead.stage;
      ahead.next();
    }
    to = stage < 0 ? 0 : __ldg(rows + stage * STAGE_ROWS + first + lane % OWN_ROWS);
  };
  #pragma unroll
  for (int u = 0; u < HELD; ++u) read_rows(row[u]);
  const auto copy_stage = [&](int row, int from_lane) {
    const unsigned full = ring.full + 8 * place.stage;
    const unsigned to = ring.stages + place.stage * STAGE_BYTES;
    barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
    if (thread == 0) {
      barrier_expect(full, W_STAGE + 4 * BULK_ROWS * ROW);
      constexpr int SHARE = W_STAGE / CLUSTER;
      const int own_share = block % CLUSTER * SHARE;
      const unsigned char* from = values + (long long)now.stage * W_STAGE + own_share;
      if constexpr (CLUSTER == 1) bulk_copy(to + X_STAGE, from, SHARE, full);
      else copy_to_all(to + X_STAGE + own_share, from, SHARE, full);
    }
    __syncwarp();
    turned.await(row, from_lane + OWN_ROWS - 1, lane);
    const unsigned own_to = to + first * X_ROW_BYTES;
    const unsigned char* own_x = x + now.columns;
    if constexpr (BULK_ROWS > 0) {
      const unsigned own = __shfl_sync(0xffffffff, row, from_lane + lane % BULK_ROWS);
      if (lane < BULK_ROWS)
        bulk_copy(own_to + lane * X_ROW_BYTES, own_x + own * (unsigned)(PITCH * SIZE), ROW, full);
    }
    #pragma unroll 1
    for (int piece = 0; piece < PIECES; piece += BATCH) {
      unsigned from[BATCH];
      #pragma unroll
      for (int i = 0; i < BATCH; ++i)
        from[i] = __shfl_sync(0xffffffff, row, from_lane + row_of(piece + i));
      #pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        const int at = byte_of(piece + i), row = row_of(piece + i);
        copy_piece(own_to + row * X_ROW_BYTES + (SWIZZLED ? at ^ (row & 7) << 4 : at),
                   own_x + (from[i] * (unsigned)(PITCH * SIZE) + at));
      }
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" : : "r"(full) : "memory");
    place.next();
    now.next();
  };
  while (now.more) {
    #pragma unroll
    for (int u = 0; u < HELD; ++u) {
      #pragma unroll 1
      for (int i = 0; i < TOGETHER && now.more; ++i) copy_stage(row[u], i * OWN_ROWS);
      read_rows(row[u]);
    }
  }
  if constexpr (CLUSTER > 1) {  // others still arrive here
    for (int i = 0; i < STAGES; ++i, place.next())
      barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
  }
}
"""
"""gather_tiles(ring, x, rows, values, tiles, progress, block, thread) of 128 threads."""
