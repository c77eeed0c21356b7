"""CUDA source of products of long vectors: gathered columns by the rows of a vector row.

The left factor of wgmma is the gathered side, turned, in registers: 64 columns of 32 rows of b, or
of 16 rows of floats. Its right factor is the vectors, whose rows are its columns, in shared memory
as they were packed. Of values of 4 bits a byte has two columns, which as bytes of their own are
16 times as large. A warpgroup copies rows of b by name, 16 bytes a thread or a row by a bulk copy;
others turn them by ldmatrix.trans, as `staged_source.py` says.
"""

from __future__ import annotations

LONG_HEADING = r"""
constexpr int in_bytes(int columns) { return NIBBLES ? columns / 2 : columns * SIZE; }
constexpr int TILE = 64 * TEAMS * TILES, TILE_BYTES = in_bytes(TILE), PITCH = TILE_BYTES + PADDING;
constexpr int DEPTHS = ROWS / 32;
constexpr int VALUE_BYTES = VECTOR * ROWS * SIZE * LEFT_DIGITS, EIGHTS = VECTOR / 8;
constexpr int PLANE_SUMS = VECTOR / 2, TILE_SUMS = PLANES * PLANE_SUMS;
constexpr int CONSUMERS = 4 * TEAMS;

// d += a b, with four registers of each thread and a tile of shared memory: of a digit of values.
template <int DIGIT> __device__ __forceinline__ void multiply_tile(
    int* d, const unsigned* a, unsigned long long b) {PRODUCTS
}
"""
"""What the instruction stands in."""

RING_SOURCE = r"""
struct Ring {
  unsigned start;
  __device__ __forceinline__ unsigned stage(int number) const {
    return start + number * STAGE_BYTES;
  }
  __device__ __forceinline__ unsigned rows(int number) const {
    return stage(number) + VALUE_BYTES;
  }
  __device__ __forceinline__ unsigned full(int number) const {
    return start + RING_BYTES + number * BARRIER_BYTES;
  }
  // Left by this block, and by all of the cluster.
  __device__ __forceinline__ unsigned empty(int number) const { return full(number) + 8; }
  __device__ __forceinline__ unsigned empty_in_all(int number) const {
    return full(number) + BARRIER_BYTES - 8;
  }
};
struct Position {
  int stage, phase;
  __device__ __forceinline__ void advance() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

__device__ __forceinline__ void wait_for(unsigned barrier, int phase) {
  unsigned done = 0;
  while (!done) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier), "r"(phase) : "memory");
  }
}
__device__ __forceinline__ void open_ring(const Ring& ring) {
  for (int i = 0; i < STAGES; ++i) {
    // The threads that copy rows, and the one that asks for values.
    asm volatile("mbarrier.init.shared.b64 [%0], 129;" :: "r"(ring.full(i)) : "memory");
    asm volatile("mbarrier.init.shared.b64 [%0], %1;"
                 :: "r"(ring.empty(i)), "r"(CONSUMERS) : "memory");
    if constexpr (CLUSTER > 1)
      asm volatile("mbarrier.init.shared.b64 [%0], %1;"
                   :: "r"(ring.empty_in_all(i)), "r"(CONSUMERS * CLUSTER) : "memory");
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// One lane of a warp, of which the compiler knows that it is the only one: bulk copies of any other
// choice stand in a loop over lanes, 31 to 43 clocks each.
__device__ __forceinline__ bool is_elected() {
  unsigned elected;
  asm volatile("{ .reg .pred p; .reg .b32 leader; elect.sync leader|p, 0xffffffff;"
               " selp.u32 %0, 1, 0, p; }" : "=r"(elected) :: "memory");
  return elected;
}
__device__ __forceinline__ void copy(unsigned to, const void* from, int bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
__device__ __forceinline__ void copy_to_all(
    unsigned to, const void* from, int bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1], %2, [%3], %4;"
               :: "r"(to), "l"(from), "r"(bytes), "r"(barrier),
                  "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}
// A warp has read a stage, whose values came from all blocks of the cluster.
__device__ __forceinline__ void leave(const Ring& ring, int stage, int number) {
  if (number == 0)
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(ring.empty(stage)) : "memory");
  if (CLUSTER > 1 && number < CLUSTER)
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there]; }"
                 :: "r"(ring.empty_in_all(stage)), "r"(number) : "memory");
}

// What one vector row has in the packed arrays.
struct VectorRow { int stage, length; };

// Loads that begin where they stand: ptxas moves those by the non-coherent path to their use.
__device__ __forceinline__ int read_here(const int* from) {
  int found;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(found) : "l"(from) : "memory");
  return found;
}
// Of a tile of y. Blocks that take one after another ask for some behind the last one too.
__device__ __forceinline__ VectorRow vector_row_of(
    const int* starts, const int* lengths, int tile) {
  const int order = min(tile, ALL_TILES - 1) / PANELS;
  return {read_here(starts + order), read_here(lengths + order)};
}
// A block's first one: even lanes ask for one number and odd ones for the other, in front of the
// block's barrier. Of a load that all lanes do alike ptxas would wait for the result there, to have
// it in a uniform register.
__device__ __forceinline__ int start_row(
    const int* starts, const int* lengths, int tile, int number) {
  return read_here((number % 2 ? lengths : starts) + tile / PANELS);
}
__device__ __forceinline__ VectorRow row_of(int halves) {
  return {__shfl_sync(0xffffffffu, halves, 0), __shfl_sync(0xffffffffu, halves, 1)};
}

// Places of a vector row's columns in b. A lane reads the place of one row of its warp: those of
// some stages together, of HELD times as many ahead.
constexpr int OWN_ROWS = ROWS / 4, TOGETHER = 32 / OWN_ROWS, HELD = 4;
static_assert(HEAD == HELD * TOGETHER * ROWS);
__device__ __forceinline__ int stages_of(const VectorRow& row) {
  return (row.length + ROWS - 1) / ROWS;
}
// Whether a tile's stages go from the last one to the first.
__device__ __forceinline__ bool goes_back(int tile) { return TURNS_BACK && tile / BLOCKS % 2; }
struct Places {
  const int* next;
  int ahead, step, held[HELD];
  __device__ __forceinline__ void read(int u) {
    held[u] = 0;
    if (ahead > 0) held[u] = read_here(next);
    ahead -= TOGETHER, next += TURNS_BACK ? step : TOGETHER * ROWS;
  }
  // Of a lane: which of the stages that are read together, and which of their rows.
  static __device__ __forceinline__ int stage_of(int thread) { return thread % 32 / OWN_ROWS; }
  static __device__ __forceinline__ int row_of(int thread) {
    return thread / 32 * OWN_ROWS + thread % 32 % OWN_ROWS;
  }
  __device__ __forceinline__ void start(
      const int* places, const VectorRow& row, bool back, int thread) {
    const int stages = stages_of(row), asked = stage_of(thread);
    ahead = stages - asked;
    step = back ? -TOGETHER * ROWS : TOGETHER * ROWS;
    const int first = row.stage + (back ? stages - 1 - asked : asked);
    next = places + first * ROWS + row_of(thread);
    #pragma unroll
    for (int u = 0; u < HELD; ++u) read(u);
  }
  // A block's first tile: its places lie where its vector row's number says too, so that they do
  // not wait for where its stages start.
  __device__ __forceinline__ void start_first(const int* heads, int order, int thread) {
    const int* head = heads + order * HEAD + stage_of(thread) * ROWS + row_of(thread);
    #pragma unroll
    for (int u = 0; u < HELD; ++u) held[u] = read_here(head + u * TOGETHER * ROWS);
  }
  __device__ __forceinline__ void go_on(const int* places, const VectorRow& row, int thread) {
    const int asked = stage_of(thread) + HELD * TOGETHER;
    ahead = stages_of(row) - asked, step = TOGETHER * ROWS;
    next = places + (row.stage + asked) * ROWS + row_of(thread);
  }
};

// This block's share of the values of stages, for all blocks of the cluster: asked for once all of
// them have left a stage. Rows of some stages go first, so that they do not wait for other blocks.
constexpr int LAG = CLUSTER == 1 || STAGES < 3 ? 0 : STAGES == 3 ? 1 : 2;
struct Values {
  const unsigned char* next;
  Position at;
  int behind, step;
  __device__ __forceinline__ void ask(
      const Ring& ring, int rank, int bulk_bytes, int value_bytes) {
    constexpr int SHARE = VALUE_BYTES / CLUSTER;
    const unsigned full = ring.full(at.stage), share = ring.stage(at.stage) + rank * SHARE;
    if constexpr (CLUSTER > 1) wait_for(ring.empty_in_all(at.stage), at.phase);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
                 :: "r"(full), "r"(value_bytes + bulk_bytes) : "memory");
    if constexpr (CLUSTER == 1) copy(share, next, value_bytes, full);
    else copy_to_all(share, next, SHARE, full);
    next += TURNS_BACK ? step : VALUE_BYTES;
    at.advance();
    --behind;
  }
};

// A warpgroup: rows of b by name, 16 bytes a thread, and values. A stage is announced by its copies
// as they end, so that all stages may be under way. The last stage of a tile may be cut to whole 32
// of the rows that there are.
__device__ __forceinline__ void copy_stages(
    const Ring& ring, const B* b, Values& values, Places& places, Position& at, int length,
    int first_column, int rank, int thread) {
  constexpr int CHUNKS = TILE_BYTES / 16;
  constexpr int PIECES = OWN_ROWS * CHUNKS / 32;
  constexpr int BATCH = PIECES % 8 == 0 ? 8 : PIECES % 4 == 0 ? 4 : PIECES % 2 == 0 ? 2 : 1;
  constexpr bool EVEN = 32 % CHUNKS == 0;  // a lane copies the same columns of all of its rows
  const int number = thread % 32, first = thread / 32 * OWN_ROWS;
  const int first_own = number / CHUNKS, own_column = number % CHUNKS * 16;
  const auto row_of = [&](int i) {
    return EVEN ? i * (32 / CHUNKS) + first_own : (i * 32 + number) / CHUNKS;
  };
  const auto column_of = [&](int i) {
    return EVEN ? own_column : (i * 32 + number) % CHUNKS * 16;
  };
  const int own_bytes = in_bytes(N % TILE == 0 ? TILE : min(TILE, N - first_column));
  const unsigned char* own_columns =
      reinterpret_cast<const unsigned char*>(b) + in_bytes(first_column);
  const bool by_bulk = BULK > 0 && thread / 32 >= 4 - BULK;
  const auto ask = [&](int place, int lane, int left) {
    const unsigned full = ring.full(at.stage);
    wait_for(ring.empty(at.stage), at.phase);
    if (thread == 0 && ++values.behind > LAG) {
      const int depths = CUTS_LAST ? min(DEPTHS, (left + 31) / 32) : DEPTHS;
      const int rows = max(0, depths * 32 - (4 - BULK) * OWN_ROWS);
      values.ask(ring, rank, BULK ? rows * own_bytes : 0, depths * (VALUE_BYTES / DEPTHS));
    }
    __syncwarp();
    // Asked of each copy: of a branch around the shuffles the compiler would not know that a warp's
    // lanes take it together.
    const bool here = !CUTS_LAST || first / 32 * 32 < left;
    const unsigned to = ring.rows(at.stage) + first * PITCH;
    if (by_bulk) {
      #pragma unroll 1
      for (int row = 0; row < OWN_ROWS; row += 8) {
        int from[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) from[i] = __shfl_sync(0xffffffffu, place, lane + row + i);
        if (is_elected() && here) {
          #pragma unroll
          for (int i = 0; i < 8; ++i)
            copy(to + (row + i) * PITCH, own_columns + in_bytes(from[i]), own_bytes, full);
        }
        __syncwarp();
      }
    }
    // The lanes of a round have whole rows where these divide 32 pieces.
    #pragma unroll 1
    for (int piece = by_bulk ? PIECES : 0; piece < PIECES; piece += BATCH) {
      int from[BATCH];
      #pragma unroll
      for (int i = 0; i < BATCH; ++i)
        from[i] = __shfl_sync(0xffffffffu, place, lane + row_of(piece + i));
      #pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        const int column = column_of(piece + i);
        if (here && (N % TILE == 0 || in_bytes(first_column) + column < in_bytes(N)))
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                       :: "r"(to + row_of(piece + i) * PITCH + column),
                          "l"(own_columns + (in_bytes(from[i]) + column))
                       : "memory");
      }
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(full) : "memory");
    at.advance();
  };
  int left = length;  // rows
  while (left > 0) {
    #pragma unroll
    for (int u = 0; u < HELD; ++u) {
      #pragma unroll 1
      for (int i = 0; i < TOGETHER && left > 0; ++i, left -= ROWS)
        ask(places.held[u], i * OWN_ROWS, left);
      places.read(u);
    }
  }
  if (LAG > 0 && thread == 0)
    while (values.behind > 0)
      values.ask(ring, rank, BULK * OWN_ROWS * own_bytes, VALUE_BYTES);
  __syncwarp();
}
"""
"""The ring, and the warpgroup that fills it."""
