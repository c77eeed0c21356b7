"""CUDA source of a consumer's loop over tiles of keys, of bytes."""

BYTE_LOOP = r"""
template <int LEFT> __device__ __forceinline__ void wait_for_all_but(int left) {
  if constexpr (LEFT > 0) {
    if (left < LEFT) return wait_for_all_but<LEFT - 1>(left);
  }
  wait_for_products<LEFT>();
}
// A consumer of rows of a block, at one step of the ring after the other.
template <bool PLAIN> struct Consumer {
  State<PLAIN>& state;
  const Block& block;
  const float* mask;
  int consumer, row, lane;  // whose queries they are, its first row, and the own lane

  __device__ __forceinline__ void start_scores(Products& products, int step) {
    const int stage = stage_of(step);
    wait_for(block.barrier(KEYS_THERE, stage), block.key_phase(step));
    state.start_scores(products, block.own(consumer), block.keys(stage));
  }
  // Scores of the tile that a step brings, when its products are there.
  __device__ __forceinline__ void finish_scores(
      Scores& z, const Products& products, int tile, int step) {
    const int stage = stage_of(step);
    const Corner corner = {row, tile * TILE_KEYS};
    wait_for(block.barrier(SUMS_THERE, stage), block.key_phase(step));
    state.score_all(z, products, mask, corner, block.sums(stage), lane);
    leave(block.barrier(KEYS_LEFT, stage), lane);
    hide(z, corner, lane, state.hidden());
  }
  __device__ __forceinline__ void score(Scores& z, int tile, int step) {
    Products products;
    start_scores(products, step);
    wait_for_products<0>();
    finish_scores(z, products, tile, step);
  }
  // Powers of a tile become shares, which weigh their values.
  __device__ __forceinline__ void start_values(Shares& shares, Scores& z, int tile) {
    state.cut_powers(z);
    #pragma unroll
    for (int step = 0; step < TILE_KEYS / 32; ++step)
      state.share(shares[step], z, 0, step);
    wait_for(block.barrier(TURNED_THERE, stage_of(tile)), block.value_phase(tile));
    state.start_values(shares, block.turned(stage_of(tile)));
  }
  // No more products are asked for: the next queries may come.
  __device__ __forceinline__ void leave_queries() {
    if constexpr (PERSISTENT) leave(block.queries_left(), lane);
  }
  __device__ __forceinline__ void leave_values(int tile) {
    leave(block.barrier(TURNED_LEFT, stage_of(tile)), lane);
  }
  __device__ __forceinline__ void weigh(Scores& z, int tile) {
    Shares shares;
    start_values(shares, z, tile);
    wait_for_products<0>();
    leave_values(tile);
  }

  // Powers of all keys wait in registers. Ahead, products of all keys are asked for before any
  // scores are looked at, and those of values run beside the shares of the next tile.
  __device__ __forceinline__ void keep() {
    constexpr int KEPT = KEEPS_POWERS ? TILES : 1;
    Products products[KEPT];
    Scores powers[KEPT];
    RowPairs tops[KEPT];  // the largest scores up to a tile, under its powers
    #pragma unroll
    for (int tile = 0; AHEAD && tile < KEPT; ++tile)
      if (tile < block.tiles) start_scores(products[tile], tile);
    #pragma unroll
    for (int tile = 0; tile < KEPT; ++tile)
      if (tile < block.tiles) {
        if (!AHEAD) start_scores(products[tile], tile);
        wait_for_all_but<KEPT - 1>(AHEAD ? KEPT - 1 - tile : 0);
        if (tile == KEPT - 1) leave_queries();
        finish_scores(powers[tile], products[tile], tile, tile);
        state.raise(powers[tile], tile == 0);
        tops[tile] = state.top;
      }
    state.settle();
    const RowPairs inverse = state.inverse;
    Shares shares[KEPT];
    #pragma unroll
    for (int tile = 0; tile < KEPT; ++tile)
      if (tile < block.tiles) {
        #pragma unroll
        for (int half = 0; half < 2 && !PLAIN && KEPT > 1; ++half) {
          const float moved = tops[tile].of[0][half] - base_of(state.top.of[0][half]);
          state.inverse.of[0][half] = inverse.of[0][half] * power_of_two(moved * state.factor);
        }
        if (tile == KEPT - 1 || CAUSAL) state.read_outputs();
        start_values(shares[tile], powers[tile], tile);
        if (!AHEAD) {
          wait_for_products<0>();
          leave_values(tile);
        }
      }
    if (AHEAD) wait_for_products<0>();
    #pragma unroll
    for (int tile = 0; AHEAD && tile < KEPT; ++tile)
      if (tile < block.tiles) leave_values(tile);
  }

  __device__ __forceinline__ void compute_twice() {
    #pragma unroll 1
    for (int tile = 0; tile < block.tiles; ++tile) {
      Scores z;
      score(z, tile, tile);
      state.measure(z, tile == 0);
    }
    state.settle();
    #pragma unroll 1
    for (int tile = 0; tile < block.tiles; ++tile) {
      Scores z;
      score(z, tile, block.tiles + tile);
      if (tile == block.tiles - 1) leave_queries();
      state.raise_measured(z);
      weigh(z, tile);
    }
    state.read_outputs();
  }

  // Of a block that has no rows for this consumer, everything is left as it comes.
  __device__ __forceinline__ void skip() {
    wait_for(block.of_queries(), block.nth % 2);
    leave_queries();
    #pragma unroll 1
    for (int step = 0; step < KEY_STEPS; ++step) leave_keys(step);
    #pragma unroll 1
    for (int tile = 0; tile < TILES; ++tile) leave_turned(tile);
  }
  __device__ __forceinline__ void leave_keys(int step) {
    wait_for(block.barrier(KEYS_THERE, stage_of(step)), block.key_phase(step));
    leave(block.barrier(KEYS_LEFT, stage_of(step)), lane);
  }
  __device__ __forceinline__ void leave_turned(int tile) {
    wait_for(block.barrier(TURNED_THERE, stage_of(tile)), block.value_phase(tile));
    leave_values(tile);
  }
  // Two consumers have the same rows and a tile of keys each. What they find out of its sum, and
  // what the second one weighs, they exchange in shared memory.
  __device__ __forceinline__ void share_rows(int tile) {
    const int other = 1 - tile, thread = threadIdx.x % 128, own_row = row / 16 % 4 * 16 + lane / 4;
    const unsigned sums = block.smem + SHARED_AT + 2 * 64 * 8;
    const auto of_row = [&](int of, int half) {
      return block.smem + SHARED_AT + (of * 64 + own_row + half * 8) * 8;
    };
    state.look_at_queries(block.own(consumer), row / 16 % 4, lane);
    Scores z;
    Products products;
    start_scores(products, tile);
    wait_for_products<0>();
    leave_queries();
    finish_scores(z, products, tile, tile);
    state.raise(z, true);
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& total = state.total.of[0][half];
      total = over_lanes_sum(total);
      if (lane % 4 == 0)
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                     :: "r"(of_row(tile, half)), "f"(total), "f"(state.top.of[0][half]) : "memory");
    }
    leave_keys(other);
    meet(BOTH, 256);
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total, top;
      asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                   : "=f"(total), "=f"(top) : "r"(of_row(other, half)) : "memory");
      // Each row is summed by one of its lanes alone.
      total = state.total.of[0][half] + total * power_of_two(state.top.of[0][half] - top);
      state.total.of[0][half] = lane % 4 == 0 ? total : 0.f;
    }
    state.settle();
    state.read_outputs();
    Shares shares;
    start_values(shares, z, tile);
    wait_for_products<0>();
    leave_values(tile);
    leave_turned(other);
    exchange_sums(sums + thread * 4, tile == 1);
  }
  // The second consumer's sums are added to those of the first one.
  __device__ __forceinline__ void exchange_sums(unsigned at, bool gives) {
    unsigned* words = &state.sums[0][0][0];
    if (gives) {
      #pragma unroll
      for (int i = 0; i < OUT_TILES * 4; ++i)
        asm volatile("st.shared.b32 [%0], %1;" :: "r"(at + i * 512), "r"(words[i]) : "memory");
      #pragma unroll
      for (int half = 0; half < 2; ++half)
        asm volatile("st.shared.b32 [%0], %1;"
                     :: "r"(at + (OUT_TILES * 4 + half) * 512), "r"(state.shares_sum[0][half])
                     : "memory");
    }
    meet(BOTH, 256);
    if (gives) return;
    const auto given = [&](int i) {
      unsigned word;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(at + i * 512) : "memory");
      return word;
    };
    #pragma unroll
    for (int i = 0; i < OUT_TILES * 4; ++i) words[i] += given(i);
    #pragma unroll
    for (int half = 0; half < 2; ++half) state.shares_sum[0][half] += given(OUT_TILES * 4 + half);
  }

  __device__ __forceinline__ void consume() {
    state.look_at_queries(block.own(consumer), row / 16 % 4, lane);
    if constexpr (KEEPS_POWERS || TILES == 1) keep();
    else compute_twice();
  }
};
template <bool PLAIN> __device__ __forceinline__ void consume(
    State<PLAIN>& state, const Block& block, const float* mask, int consumer, int row, int lane) {
  if constexpr (PLAIN && SHARES_ROWS)
    if (block.consumers == 1) {
      state.begin_rows();
      return Consumer<PLAIN>{state, block, mask, 0, row - consumer * 64, lane}.share_rows(consumer);
    }
  Consumer<PLAIN> own = {state, block, mask, consumer, row, lane};
  if (PERSISTENT && consumer >= block.consumers) return own.skip();
  state.begin_rows();
  own.consume();
}
"""
