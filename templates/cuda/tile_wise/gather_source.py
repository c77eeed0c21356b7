"""CUDA source of a ring of stages: gathered rows of x transposed, and their weights.

Four warps gather. A row comes by one bulk copy, or each of its 16-byte pieces by a thread.
"""

from __future__ import annotations

GATHER = r"""
constexpr int X_STAGE = X_STAGE_BYTES, W_STAGE = STAGE_ROWS * SIZE * WIDTH;
constexpr int STAGE_BYTES = X_STAGE + W_STAGE;

struct Ring { unsigned stages, full, empty; };
__device__ __forceinline__ void barrier_init(unsigned at, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(at), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_arrive(unsigned at) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" : : "r"(at) : "memory");
}
__device__ __forceinline__ void barrier_expect(unsigned at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
               : : "r"(at), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(unsigned at, int parity) {
  asm volatile(
      "{ .reg .pred p;\nWAIT: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n"
      "@p bra DONE;\nbra WAIT;\nDONE: }" : : "r"(at), "r"(parity) : "memory");
}
__device__ __forceinline__ void bulk_copy(unsigned to, const void* from, int bytes, unsigned full) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      : : "r"(to), "l"(from), "r"(bytes), "r"(full) : "memory");
}
__device__ __forceinline__ void copy_piece(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
}

// The piece of work that a block has in a turn, -1 for none: long tiles come first, and every
// other turn goes backwards, so that blocks end together.
__device__ __forceinline__ int item_of(int turn, int block) {
  const int item = turn * GRID + (turn % 2 ? GRID - 1 - block : block);
  return item < ITEMS ? item : -1;
}

// Where a ring is: the stage, and whether it has come again an odd number of times.
struct Place {
  int stage = 0, phase = 0;
  __device__ __forceinline__ void next() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

__device__ __forceinline__ void gather_tiles(
    const Ring& ring, const unsigned char* x, const int* rows, const unsigned char* values,
    const int4* tiles, int block, int thread) {
  constexpr int ROW = ROWS * SIZE, PIECES = ROW / 16;
  const int warp = thread / 32, lane = thread % 32;
  Place place;
  int waiting = 0;  // stages that threads copy, and have not announced
  unsigned announced[2];
  for (int turn = 0; turn * GRID < ITEMS; ++turn) {
    const int item = item_of(turn, block);
    if (item < 0) continue;
    const int4 tile = __ldg(tiles + item / ROW_TILES);
    const unsigned char* columns = x + (long long)(item % ROW_TILES) * ROW;
    for (int s = tile.x; s < tile.x + tile.y; ++s) {
      const unsigned to = ring.stages + place.stage * STAGE_BYTES;
      const unsigned full = ring.full + 8 * place.stage;
      barrier_wait(ring.empty + 8 * place.stage, place.phase ^ 1);
      if (thread == 0) {
        barrier_expect(full, W_STAGE + (BULK ? STAGE_ROWS * ROW : 0));
        bulk_copy(to + X_STAGE, values + (long long)s * W_STAGE, W_STAGE, full);
      }
      if constexpr (BULK) {
        #pragma unroll
        for (int r = warp * 32 + lane; r < STAGE_ROWS; r += 128) {
          const long long row = __ldg(rows + s * STAGE_ROWS + r);
          bulk_copy(to + r * X_ROW_BYTES, columns + row * (PITCH * SIZE), ROW, full);
        }
      } else {
        #pragma unroll
        for (int i = thread; i < STAGE_ROWS * PIECES; i += 128) {
          const int r = i / PIECES, piece = i % PIECES * 16;
          const long long row = __ldg(rows + s * STAGE_ROWS + r);
          copy_piece(to + r * X_ROW_BYTES + piece, columns + row * (PITCH * SIZE) + piece);
        }
        asm volatile("cp.async.commit_group;" : : : "memory");
        if (waiting == 2) {
          asm volatile("cp.async.wait_group 2;" : : : "memory");
          barrier_arrive(announced[0]);
          announced[0] = announced[1], announced[1] = full;
        } else {
          announced[waiting++] = full;
        }
      }
      place.next();
    }
  }
  if constexpr (!BULK) {
    asm volatile("cp.async.wait_group 0;" : : : "memory");
    if (waiting > 0) barrier_arrive(announced[0]);
    if (waiting > 1) barrier_arrive(announced[1]);
  }
}
"""
"""gather_tiles(ring, x, rows, values, tiles, block, thread) of the 128 threads that gather."""
