"""CUDA source of consumers: wgmma over what a tile picks of x, or over all of k, then outputs."""

from __future__ import annotations

from autoq.templates.cuda.device.memory.cluster_source import MEET_CLUSTER

MULTIPLY = r"""
// The rings of a consumer: x for all, and the weights of its side. Barriers say when it is the turn
// of its team, and of the next one: a ring's barriers tell no more than one round from the next.
struct Rings { Ring x, weights; unsigned turn, next_turn; };
__device__ __forceinline__ void hand_over(const Rings& rings, int lane) {
  if constexpr (TEAMS > 1)
    if (lane == 0) barrier_arrive(rings.next_turn);
}

// A warp has read a stage in front of a place, whose weights came from all blocks of the cluster.
__device__ __forceinline__ void leave_weights(
    const Ring& ring, const Place& place, int back, int lane) {
  const int stage = place.stage - back;
  const unsigned empty = ring.empty + 8 * (stage < 0 ? stage + STAGES : stage);
  if constexpr (CLUSTER == 1) {
    if (lane == 0) barrier_arrive(empty);
  } else if (lane < CLUSTER) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there]; }"
                 : : "r"(empty), "r"(lane) : "memory");
  }
}
WINDOW
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}
__device__ __forceinline__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}
// All groups of products but the last one have ended.
__device__ __forceinline__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory");
}
__device__ __forceinline__ unsigned long long weights_at(unsigned at) {
  // Unswizzled: units of 16 bytes along k are WIDTH rows apart, groups of eight rows 128 bytes.
  return (at & 0x3ffff) >> 4 | (unsigned long long)WIDTH << 16 | 8ull << 32;
}
MULTIPLY_TILE
HOLD
// No outputs for the helpers.
__device__ __forceinline__ void skip_item(Outputs& to, int lane) {
  barrier_wait(to.empty, to.phase);
  if (lane == 0) barrier_arrive(to.full);
  to.phase ^= 1;
}
__device__ __forceinline__ void multiply_tiles(
    const Rings& rings, Outputs& outputs, int* terms, const unsigned char* values,
    const int4* tiles, const void* places, const Constants& from, int block, int consumer,
    int thread) {
  const int lane = thread % 32, side = consumer % TEAM / SPLITS, team = consumer / TEAM;
  const int own_row = consumer % SPLITS * (BLOCKS_M * 64) + thread % 128 / 32 * 16;
  if constexpr (!HELPED) begin_rows(outputs.rows + thread / 32 * (16 * ROW_PITCH), lane);
  Place place;
  Window window = {};
  SUM sums[ALL];
  const auto tile_of = [&](int turn) {
    const int item = item_of(turn, block);
    return item < 0 ? int4{} : __ldg(tiles + item / ROW_GROUPS * SIDES + side);
  };
  int4 tile = READ_AHEAD ? tile_of(0) : int4{}, next;
  int phase = team == 0;  // whose first turn is at once
  for (int turn = 0; turn * CLUSTERS < ITEMS; ++turn) {
    const int item = item_of(turn, block);
    if (item < 0) break;
    if (!READ_AHEAD || turn > 0) tile = READ_AHEAD ? next : tile_of(turn);
    if constexpr (READ_AHEAD) next = tile_of(turn + 1);
    if constexpr (TEAMS > 1) {
      if (turn % TEAMS != team) {
        skip<X_STAGES>(window.place, K_STAGES), skip<STAGES>(place, tile.y);
        continue;
      }
      barrier_wait(rings.turn, phase);
      phase ^= 1;
    }
    if (tile.y == 0) {  // no tile at this side
      window.end(rings.x, lane);
      hand_over(rings, lane);
      if constexpr (HELPED) skip_item(outputs, lane);
      continue;
    }
    const int number = item / ROW_GROUPS * SIDES + side;
    begin_terms(terms, from, number * WIDTH, consumer, thread % 128);
    hold_entries(terms, places, tile, thread % 128);
    const unsigned char* own = values + (long long)tile.x * W_BYTES;
    multiply_tile(sums, rings, place, window, own, tile.y, own_row, lane);
    if constexpr (!READ_AHEAD) tile = tile_of(turn);  // which takes no registers until here
    await_terms(consumer);
    outputs.places = entries_of(terms, places, tile);
    finish_item(sums, outputs, terms, from, tile, first_row_of(item, block), own_row, lane);
  }
}

__device__ __forceinline__ void multiply_picked(
    unsigned char* smem, unsigned long long x_map, const unsigned char* values, const int4* tiles,
    const void* places, const Constants& from, OUT* y, int block, int thread) {
  unsigned base;  // kept in a register
  asm volatile("mov.u32 %0, %1;" : "=r"(base) : "r"((unsigned)__cvta_generic_to_shared(smem)));
  constexpr int W_AT = X_STAGES * X_STAGE, ROWS_AT = W_AT + SIDES * STAGES * W_STAGE;
  constexpr int TERMS_AT = ROWS_AT + OUTPUT_BYTES;
  constexpr int BARRIERS_AT = TERMS_AT + CONSUMERS * TERMS * 4;
  constexpr int W_BARRIERS_AT = BARRIERS_AT + 16 * X_STAGES;
  constexpr int OUTPUTS_AT = W_BARRIERS_AT + SIDES * 16 * STAGES;
  constexpr int TURNS_AT = OUTPUTS_AT + HELPED * SIDES * 16;
  const Ring x = {base, base + BARRIERS_AT, base + BARRIERS_AT + 8 * X_STAGES};
  const auto weights_of = [&](int side) {
    const unsigned full = base + W_BARRIERS_AT + side * (16 * STAGES);
    return Ring{base + W_AT + side * (STAGES * W_STAGE), full, full + 8 * STAGES};
  };
  // Helpers store the rows of each side; without them each warp has some of its own.
  const auto outputs_of = [&](int side) {
    const int rows_at = ROWS_AT + (HELPED ? side * (OUTPUT_BYTES / SIDES) : 0);
    const unsigned full = base + OUTPUTS_AT + 16 * side;
    return Outputs{reinterpret_cast<unsigned*>(smem + rows_at), places, y, full, full + 8, 0};
  };
  if (thread == 0) {
    for (int s = 0; s < X_STAGES; ++s) {
      barrier_init(x.full + 8 * s, 1);
      barrier_init(x.empty + 8 * s, TEAM * 4);
    }
    if constexpr (TEAMS > 1)
      for (int team = 0; team < TEAMS; ++team) barrier_init(base + TURNS_AT + 8 * team, TEAM * 4);
    for (int side = 0; side < SIDES; ++side) {
      for (int s = 0; s < STAGES; ++s) {
        barrier_init(weights_of(side).full + 8 * s, 1);
        barrier_init(weights_of(side).empty + 8 * s, SPLITS * 4 * CLUSTER);
      }
      if constexpr (HELPED) {
        barrier_init(outputs_of(side).full, SPLITS * 4);
        barrier_init(outputs_of(side).empty, 4);
      }
    }
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
  }
  MEET_CLUSTER
  const int group = __shfl_sync(0xffffffff, thread / 128, 0);  // the same in a warp
  if (group == CONSUMERS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(PRODUCER_REGISTERS));
    const int warp = thread % 128 / 32;
    if (thread % 32 != 0) return;
    if (warp == 0) load_x(x, x_map, block);
    else if (warp <= SIDES) load_weights(weights_of(warp - 1), values, tiles, block, warp - 1);
  } else if (HELPED && group > CONSUMERS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(HELPER_REGISTERS));
    Outputs outputs[SIDES];
    #pragma unroll
    for (int side = 0; side < SIDES; ++side) outputs[side] = outputs_of(side);
    help_sides(outputs, tiles, block, thread % 128);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(CONSUMER_REGISTERS));
    const int side = group % TEAM / SPLITS, team = group / TEAM;
    const Rings rings = {x, weights_of(side), base + TURNS_AT + 8 * team,
                         base + TURNS_AT + 8 * ((team + 1) % TEAMS)};
    Outputs outputs = outputs_of(side);
    int* terms = reinterpret_cast<int*>(smem + TERMS_AT) + group * TERMS;
    multiply_tiles(rings, outputs, terms, values, tiles, places, from, block, group, thread);
  }
}
""".replace("MEET_CLUSTER", MEET_CLUSTER)
"""HOLD stands for one of `hold_source`, WINDOW for one of `window_source`, and MULTIPLY_TILE for
`pick_source.PICK`, `turned_source.TURNED` or `whole_source.WHOLE`; `words_source.WORDS` or
`sums_source.SUMS` and `help_source.ALONE` finish, or `help_source.STORE` with
`store_source.HELP_SIDES`.

multiply_picked(smem, x_map, values, tiles, places, Constants, y, block, thread)."""
