"""CUDA source of consumers: wgmma over what a tile picks of x, or over all of k, then outputs."""

from __future__ import annotations

MULTIPLY = r"""
// The rings of a consumer: x for all, and the weights of its side.
struct Rings { Ring x, weights; };

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
// The stages of x of a piece of work that a warp has waited for. It reads the newest one, and of
// those who pick the one before.
struct Window {
  XPlace place;
  int taken;
  unsigned even, odd;  // where the newest even and odd stages are
  __device__ __forceinline__ void leave(const Ring& ring, int back, int lane) {
    const int stage = place.stage - back;
    __syncwarp();
    if (lane == 0) barrier_arrive(ring.empty + 8 * (stage < 0 ? stage + X_STAGES : stage));
  }
  __device__ __forceinline__ void advance(const Ring& ring, int lane) {
    if (taken >= 2) leave(ring, 2, lane);
    barrier_wait(ring.full + 8 * place.stage, place.phase);
    const unsigned at = ring.stages + place.stage * X_STAGE;
    if (taken & 1) odd = at;
    else even = at;
    place.next(), ++taken;
  }
  // All stages that the piece of work has left.
  __device__ __forceinline__ void end(const Ring& ring, int lane) {
    while (taken < K_STAGES) advance(ring, lane);
    if (K_STAGES > 1) leave(ring, 2, lane);
    leave(ring, 1, lane);
    taken = 0;
  }
};
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

// No outputs for the helpers.
__device__ __forceinline__ void skip_item(Outputs& to, int lane) {
  barrier_wait(to.empty, to.phase);
  if (lane == 0) barrier_arrive(to.full);
  to.phase ^= 1;
}
__device__ __forceinline__ void multiply_tiles(
    const Rings& rings, Outputs& outputs, int* terms, const unsigned char* values,
    const int4* tiles, const Constants& from, int block, int consumer, int thread) {
  const int lane = thread % 32, side = consumer / SPLITS;
  const int own_row = consumer % SPLITS * (BLOCKS_M * 64) + thread % 128 / 32 * 16;
  if constexpr (!HELPED) begin_rows(outputs.rows + thread / 32 * (16 * ROW_PITCH), lane);
  Place place;
  Window window = {};
  SUM sums[ALL];
  const auto tile_of = [&](int turn) {
    const int item = item_of(turn, block);
    return item < 0 ? int4{} : __ldg(tiles + item / ROW_GROUPS * SIDES + side);
  };
  int4 tile = tile_of(0), next;
  for (int turn = 0; turn * CLUSTERS < ITEMS; ++turn, tile = next) {
    const int item = item_of(turn, block);
    if (item < 0) break;
    next = tile_of(turn + 1);
    if (tile.y == 0) {  // no tile at this side
      window.end(rings.x, lane);
      if constexpr (HELPED) skip_item(outputs, lane);
      continue;
    }
    const int number = item / ROW_GROUPS * SIDES + side;
    begin_terms(terms, from, number * WIDTH, consumer, thread % 128);
    const unsigned char* own = values + (long long)tile.x * W_BYTES;
    multiply_tile(sums, rings, place, window, own, tile.y, own_row, lane);
    await_terms(consumer);
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
      barrier_init(x.empty + 8 * s, CONSUMERS * 4);
    }
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
  if constexpr (CLUSTER == 1) {
    __syncthreads();
  } else {
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
  }
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
    const Rings rings = {x, weights_of(group / SPLITS)};
    Outputs outputs = outputs_of(group / SPLITS);
    int* terms = reinterpret_cast<int*>(smem + TERMS_AT) + group * TERMS;
    multiply_tiles(rings, outputs, terms, values, tiles, from, block, group, thread);
  }
}
"""
"""MULTIPLY_TILE stands for `PICK` or `WHOLE`; `words_source.WORDS` or `sums_source.SUMS` and
`help_source.ALONE` finish, or `help_source.STORE` with `store_source.HELP_SIDES`.

multiply_picked(smem, x_map, values, tiles, places, Constants, y, block, thread)."""

PICK = r"""
__device__ __forceinline__ unsigned word_at(unsigned at) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
}
// Words of two rows, eight apart, that are not read where no lane picks anything of them.
__device__ __forceinline__ void words_at_if(
    unsigned pick, unsigned at, unsigned& one, unsigned& other) {
  one = other = 0;
  asm volatile("{ .reg .pred p; setp.ge.s32 p, %2, 0; @p ld.shared.u32 %0, [%3];"
               " @p ld.shared.u32 %1, [%4]; }" : "+r"(one), "+r"(other)
               : "r"(pick), "r"(at), "r"(at + 8 * ROW_BYTES) : "memory");
}
// What a lane reads for a register of each row: two words of swizzled rows.
struct Words {
  unsigned first[2 * BLOCKS_M], second[2 * BLOCKS_M], selector;
  __device__ __forceinline__ void read(
      unsigned pick, const Window& window, unsigned row_at, unsigned swizzle) {
    const unsigned one =
        (pick >> 14 & 0x7c ^ swizzle) + row_at + (pick >> 21 & 1 ? window.odd : window.even);
    const unsigned other =
        (pick >> 20 & 0x7c ^ swizzle) + row_at + (pick >> 27 & 1 ? window.odd : window.even);
    #pragma unroll
    for (int i = 0; i < 2 * BLOCKS_M; ++i) {
      const int row = i / 2 * 64 + i % 2 * 8;
      first[i] = word_at(one + row * ROW_BYTES);
      if (i % 2 == 0) words_at_if(pick, other + row * ROW_BYTES, second[i], second[i + 1]);
    }
    selector = pick;
  }
  __device__ __forceinline__ unsigned of(int i) const {
    return __byte_perm(first[i], second[i], selector);
  }
};
// A consumer over the stages of a tile. Words of x are read one step ahead, and a stage begins
// while the last step of the one before is still to be multiplied.
struct Picker {
  const Rings& rings;
  Place& place;
  Window& window;
  int lane;
  unsigned row_at, swizzle, more;
  unsigned long long descriptor;  // of the newest stage's weights
  uint2 picks[DEPTH], upcoming[DEPTH];
  Words near[2], far[2];
  unsigned a[2][BLOCKS_M][4];  // of the products under way and of the next ones

  __device__ __forceinline__ void read_picks(const unsigned char* from) {
    #pragma unroll
    for (int step = 0; step < DEPTH; ++step)
      upcoming[step] = __ldg(reinterpret_cast<const uint2*>(from + step * 32) + lane % 4);
    more = __shfl_sync(0xffffffff, upcoming[0].x >> 28 & 7, 0);
  }
  // The weights of a stage and what it reads of x are there. Nothing else has branches: behind one
  // ptxas puts products one behind the other.
  __device__ __forceinline__ void begin() {
    descriptor = weights_at(rings.weights.stages + place.stage * W_STAGE);
    barrier_wait(rings.weights.full + 8 * place.stage, place.phase);
    #pragma unroll 1
    for (int n = more; n > 0; --n) window.advance(rings.x, lane);
    #pragma unroll
    for (int step = 0; step < DEPTH; ++step) picks[step] = upcoming[step];
  }
  __device__ __forceinline__ void read(int step) {
    near[step % 2].read(picks[step].x, window, row_at, swizzle);
    far[step % 2].read(picks[step].y, window, row_at, swizzle);
  }
  __device__ __forceinline__ void put_together(int step) {
    unsigned (&f)[BLOCKS_M][4] = a[step % 2];
    #pragma unroll
    for (int i = 0; i < 2 * BLOCKS_M; ++i)
      f[i / 2][i % 2] = near[step % 2].of(i), f[i / 2][2 + i % 2] = far[step % 2].of(i);
    // All are ready in front of the fence, or the compiler lets products wait for each other.
    #pragma unroll
    for (int b = 0; b < BLOCKS_M; ++b) {
      #pragma unroll
      for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(f[b][e]) : : "memory");
    }
  }
  __device__ __forceinline__ void multiply(
      SUM (&sums)[ALL], int step, unsigned long long weights, int accumulate) {
    unsigned (&f)[BLOCKS_M][4] = a[step % 2];
    begin_products();
    #pragma unroll
    for (int b = 0; b < BLOCKS_M; ++b)
      product(sums + b * (WIDTH / 2), f[b][0], f[b][1], f[b][2], f[b][3],
              weights + step * 2 * WIDTH, accumulate);
    end_products();
  }
};
// The sums of one tile's columns, of BLOCKS_M times 64 rows of a consumer.
__device__ __forceinline__ void multiply_tile(
    SUM (&sums)[ALL], const Rings& rings, Place& place, Window& window, const unsigned char* values,
    int stages, int own_row, int lane) {
  // Units of 16 bytes change places by the number of the line of 128 bytes that they are in.
  Picker own = {rings, place, window, lane, (own_row + lane / 4) * (unsigned)ROW_BYTES,
                lane / 4 * ROW_BYTES / 128 << 4};
  const unsigned char* picks = values + PICKS_AT;
  own.read_picks(picks);
  own.begin();
  own.read(0);
  #pragma unroll
  for (int step = 0; step + 1 < DEPTH; ++step) {
    own.read(step + 1);
    await_products();
    own.put_together(step);
    own.multiply(sums, step, own.descriptor, step > 0);
  }
  own.read_picks(picks + (stages > 1 ? W_BYTES : 0));
  #pragma unroll 1
  for (int s = 1; s < stages; ++s) {
    const unsigned long long before = own.descriptor;
    place.next();
    own.begin();
    own.read_picks(picks + (s + 1 < stages ? s + 1 : s) * W_BYTES);
    own.read(0);
    await_products();
    if (s > 1) leave_weights(rings.weights, place, 2, lane);
    own.put_together(DEPTH - 1);
    own.multiply(sums, DEPTH - 1, before, 1);
    #pragma unroll
    for (int step = 0; step + 1 < DEPTH; ++step) {
      own.read(step + 1);
      await_products();
      own.put_together(step);
      own.multiply(sums, step, own.descriptor, 1);
    }
  }
  await_products();
  own.put_together(DEPTH - 1);
  own.multiply(sums, DEPTH - 1, own.descriptor, 1);
  place.next();
  window.end(rings.x, lane);
  asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
  #pragma unroll
  for (int i = 0; i < ALL; ++i) hold(sums[i]);
  if (stages > 1) leave_weights(rings.weights, place, 2, lane);
  leave_weights(rings.weights, place, 1, lane);
}
"""
"""Registers of the left factor are put together of words that `picks.Picks` names."""

WHOLE = r"""
// The sums of one tile's columns over all of k, x and weights from shared memory.
__device__ __forceinline__ void multiply_tile(
    SUM (&sums)[ALL], const Rings& rings, Place& place, Window& window, const unsigned char*,
    int stages, int own_row, int lane) {
  constexpr int OF_X = ROW_BYTES / 32 / DEPTH;  // stages of weights to one of x
  constexpr unsigned long long SWIZZLE = ROW_BYTES == 128 ? 1 : ROW_BYTES == 64 ? 2 : 3;
  #pragma unroll 1
  for (int s = 0; s < stages; ++s) {
    const unsigned long long descriptor =
        weights_at(rings.weights.stages + place.stage * W_STAGE);
    if (s % OF_X == 0) window.advance(rings.x, lane);  // and leave the stage before the last one
    const unsigned at =
        (window.taken & 1 ? window.even : window.odd) + own_row / 64 * (64 * ROW_BYTES);
    const unsigned long long x = SWIZZLE << 62 | (unsigned long long)(ROW_BYTES / 2) << 32 |
        (at & 0x3ffff) >> 4 | s % OF_X * (DEPTH * 2);
    barrier_wait(rings.weights.full + 8 * place.stage, place.phase);
    begin_products();
    #pragma unroll
    for (int step = 0; step < DEPTH; ++step) {
      #pragma unroll
      for (int b = 0; b < BLOCKS_M; ++b)
        product(sums + b * (WIDTH / 2), x + b * (4 * ROW_BYTES) + step * 2,
                descriptor + step * 2 * WIDTH, s + step > 0);
    }
    end_products();
    await_products();
    if (s > 0) leave_weights(rings.weights, place, 1, lane);
    place.next();
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
  window.end(rings.x, lane);
  #pragma unroll
  for (int i = 0; i < ALL; ++i) hold(sums[i]);
  leave_weights(rings.weights, place, 1, lane);
}
"""
"""Both factors lie in shared memory."""
