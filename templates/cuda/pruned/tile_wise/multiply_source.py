"""CUDA source of consumers: fragments of gathered rows, wgmma, and sums on their way to y.

ldmatrix.trans brings gathered rows, which have k outside, to the fragments of wgmma's left factor,
whose registers hold neighbours along k. Of bytes it moves pairs of rows of y, which one PRMT parts:
fragment row g is then row 2g of y and row g + 8 is row 2g + 1, and k comes in the order of
`fragment_source.BYTE_ORDER`.
"""

from __future__ import annotations

from autoq.templates.cuda.device.memory.cluster_source import MEET_CLUSTER
from autoq.templates.cuda.device.turned.fragment_source import TURN_FRAGMENT

MULTIPLY = (
    TURN_FRAGMENT
    + r"""
constexpr int STEP_ROWS = 32 / SIZE;
// The step of a stage behind which no product of the stage before is under way.
constexpr int FREED = BLOCKS_M == 1 ? 1 : 0;

// Where in a stage a lane's units of the first step are, by 64 rows of y. Rows of other steps are
// the same modulo eight.
__device__ __forceinline__ void lane_starts(int (&starts)[BLOCKS_M], int own_row, int lane) {
  const int row = SIZE == 1 ? lane : lane / 16 * 8 + lane % 8;
  const int byte = own_row * SIZE + (SIZE == 1 ? 0 : lane / 8 % 2 * 16);
  #pragma unroll
  for (int b = 0; b < BLOCKS_M; ++b) {
    const int at = byte + b * 64 * SIZE;
    starts[b] = row * X_ROW_BYTES + (SWIZZLED ? at ^ (row & 7) << 4 : at);
  }
}

// A warp has read the stage in front of a place, whose weights came from all blocks of the cluster.
__device__ __forceinline__ void leave(const Ring& ring, const Place& place, int lane) {
  const unsigned empty = ring.empty + 8 * (place.stage ? place.stage - 1 : STAGES - 1);
  if constexpr (CLUSTER == 1) {
    if (lane == 0) barrier_arrive(empty);
  } else if (lane < CLUSTER) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there]; }"
                 : : "r"(empty), "r"(lane) : "memory");
  }
}

// The sums of one tile's columns, of BLOCKS_M times 64 rows of a consumer.
__device__ __forceinline__ void multiply_tile(
    SUM (&sums)[ALL], const Ring& ring, Place& place, int stages, const int (&starts)[BLOCKS_M],
    int lane) {
  unsigned a[2][4];  // of the instruction under way and of the next one
  unsigned r[4];     // of one of them, as it was read
  #pragma unroll 1
  for (int s = 0; s < stages; ++s) {
    const unsigned x = ring.stages + place.stage * STAGE_BYTES;
    const unsigned weights = ring.stages + place.stage * STAGE_BYTES + X_STAGE;
    // Unswizzled: units of 16 bytes along k are WIDTH rows apart, groups of eight rows 128 bytes.
    const unsigned long long descriptor =
        (weights & 0x3ffff) >> 4 | (unsigned long long)WIDTH << 16 | 8ull << 32;
    const auto read = [&](int p) {
      read_matrices<true>(r, x + starts[p % BLOCKS_M] + p / BLOCKS_M * STEP_ROWS * X_ROW_BYTES);
    };
    barrier_wait(ring.full + 8 * place.stage, place.phase);
    if constexpr (AHEAD) read(0);
    #pragma unroll
    for (int step = 0; step < DEPTH; ++step) {
      #pragma unroll
      for (int b = 0; b < BLOCKS_M; ++b) {
        unsigned (&f)[4] = a[(step * BLOCKS_M + b) % 2];
        asm volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory");
        const int p = step * BLOCKS_M + b;
        if constexpr (!AHEAD) read(p);
        turn_fragment(f, r);
        if (AHEAD && p + 1 < DEPTH * BLOCKS_M) read(p + 1);
        asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
        product(sums + b * (WIDTH / 2), f[0], f[1], f[2], f[3], descriptor + step * 2 * WIDTH,
                s + step > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
      }
      // All products but the last one have ended: those of the stage before.
      if (step == FREED && s > 0) leave(ring, place, lane);
    }
    place.next();
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
  #pragma unroll
  for (int i = 0; i < ALL; ++i) hold(sums[i]);
  if (stages > 0) leave(ring, place, lane);
}

__device__ __forceinline__ void multiply_tiles(
    const Ring& ring, Outputs& outputs, int* terms, const int4* tiles, const Constants& from,
    int block, int thread) {
  const int lane = thread % 32, warp = thread / 32, consumer = thread / 128;
  const int own_row = consumer * (BLOCKS_M * 64) + warp % 4 * 16;
  begin_rows(outputs.rows + warp * (16 * ROW_PITCH), lane);
  Place place;
  SUM sums[ALL];
  int starts[BLOCKS_M];
  lane_starts(starts, own_row, lane);
  const auto tile_of = [&](int turn) {
    const int item = item_of(turn, block);
    return item < 0 ? int4{} : __ldg(tiles + item / ROW_GROUPS);
  };
  int4 tile = tile_of(0), next;
  for (int turn = 0; turn * CLUSTERS < ITEMS; ++turn, tile = next) {
    next = tile_of(turn + 1);
    if (tile.w == 0) continue;
    const int item = item_of(turn, block);
    begin_terms(terms, from, item / ROW_GROUPS * WIDTH, consumer, thread % 128);
    multiply_tile(sums, ring, place, tile.y, starts, lane);
    await_terms(consumer);
    finish_item(sums, outputs, terms, from, tile, first_row_of(item, block), own_row, lane);
  }
}

// x lies turned, or helpers turn what is `given`.
__device__ __forceinline__ void multiply_tile_wise(
    unsigned char* smem, const unsigned char* given, unsigned char* x, const int* rows,
    const unsigned char* values, const int4* tiles, const void* places, const Constants& from,
    int* progress, OUT* y, int block, int thread) {
  unsigned base;  // kept in a register
  asm volatile("mov.u32 %0, %1;" : "=r"(base) : "r"((unsigned)__cvta_generic_to_shared(smem)));
  constexpr int ROWS_AT = STAGES * STAGE_BYTES, TERMS_AT = ROWS_AT + OUTPUT_BYTES;
  constexpr int BARRIERS_AT = TERMS_AT + CONSUMERS * TERMS * 4;
  constexpr int OUTPUTS_AT = BARRIERS_AT + 16 * STAGES, CLAIMED_AT = OUTPUTS_AT + 16;
  const Ring ring = {base, base + BARRIERS_AT, base + BARRIERS_AT + 8 * STAGES};
  Outputs outputs = {reinterpret_cast<unsigned*>(smem + ROWS_AT), places, y, base + OUTPUTS_AT,
                     base + OUTPUTS_AT + 8, 0};
  if (thread == 0) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(ring.full + 8 * s, 129);
      barrier_init(ring.empty + 8 * s, CONSUMERS * 4 * CLUSTER);
    }
    if constexpr (HELPED) barrier_init(outputs.full, CONSUMERS * 4), barrier_init(outputs.empty, 4);
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
  }
  MEET_CLUSTER
  if (HELPED && thread >= 128 * (CONSUMERS + 1)) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(HELPER_REGISTERS));
    int* claimed = reinterpret_cast<int*>(smem + CLAIMED_AT);
    help(outputs, given, x, progress, claimed, tiles, block, thread - 128 * (CONSUMERS + 1));
  } else if (thread >= 128 * CONSUMERS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(PRODUCER_REGISTERS));
    gather_tiles(ring, x, rows, values, tiles, progress, block, thread - 128 * CONSUMERS);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(CONSUMER_REGISTERS));
    int* terms = reinterpret_cast<int*>(smem + TERMS_AT) + thread / 128 * TERMS;
    multiply_tiles(ring, outputs, terms, tiles, from, block, thread);
  }
}
""".replace("MEET_CLUSTER", MEET_CLUSTER)
)
"""It needs one of the ways to finish, `sums_source.py` or `words_source.py`, and behind that
`help_source.HELP` or `ALONE`.

multiply_tile_wise(smem, given, x, rows, values, tiles, places, Constants, progress, y, block,
thread)."""
