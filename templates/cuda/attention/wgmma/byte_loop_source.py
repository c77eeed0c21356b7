"""CUDA source of a consumer's loop over tiles of keys, of bytes."""

BYTE_LOOP = r"""
// Scores of the tile that a step of the ring brings.
__device__ __forceinline__ void score_step(
    Scores& z, const State& state, const Block& block, const float* mask, int consumer,
    Corner corner, int step, int lane) {
  const int stage = stage_of(step);
  Products products;
  wait_for(block.barrier(KEYS_THERE, stage), phase_of(step));
  if (state.q_zero != 0) wait_for(block.barrier(SUMS_THERE, stage), phase_of(step));
  state.start_scores(products, block.own(consumer), block.keys(stage), block.sums(stage), lane);
  wait_for_products<0>();
  state.score_all(z, products, mask, corner, lane);
  leave(block.barrier(KEYS_LEFT, stage), lane);
  hide(z, corner, lane);
}
// Powers of a tile become shares, which weigh their values.
__device__ __forceinline__ void weigh_tile(
    State& state, const Scores& z, const Block& block, int tile, int lane) {
  Shares shares;
  #pragma unroll
  for (int step = 0; step < TILE_KEYS / 32; ++step) state.share(shares[step], z, 0, step);
  wait_for(block.barrier(TURNED_THERE, stage_of(tile)), phase_of(tile));
  state.start_values(shares, block.turned(stage_of(tile)));
  wait_for_products<0>();
  leave(block.barrier(TURNED_LEFT, stage_of(tile)), lane);
}

// Powers of all tiles, pairs of halves, each over the largest score up to its tile.
struct KeptPowers {
  unsigned words[KEEPS_POWERS ? TILES : 1][KEY_TILES][2];
  RowPairs tops[KEEPS_POWERS ? TILES : 1];

  __device__ __forceinline__ void keep(const Scores& z, int tile, const RowPairs& top) {
    tops[tile] = top;
    #pragma unroll
    for (int t = 0; t < KEY_TILES; ++t)
      #pragma unroll
      for (int half = 0; half < 2; ++half)
        // In this place: otherwise ptxas packs beside the next tile, and floats of two tiles spill.
        asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(words[tile][t][half])
                     : "f"(z[0][t][2 * half + 1]), "f"(z[0][t][2 * half]) : "memory");
  }
};

// Kept powers of a tile become shares, which weigh their values.
__device__ __forceinline__ void weigh_kept(
    State& state, const KeptPowers& kept, const Block& block, int tile, int lane) {
  Shares shares;
  const HalfShares by(state, kept.tops[tile]);
  by.share(shares, kept.words[tile]);
  if (state.v_zero != 0)
    #pragma unroll
    for (int step = 0; step < TILE_KEYS / 32; ++step)
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        int& sum = state.shares_sum[0][i % 2];
        sum = add_bytes(shares[step][i], sum, false);
      }
  wait_for(block.barrier(TURNED_THERE, stage_of(tile)), phase_of(tile));
  state.start_values(shares, block.turned(stage_of(tile)));
  wait_for_products<0>();
  leave(block.barrier(TURNED_LEFT, stage_of(tile)), lane);
}

__device__ __forceinline__ void consume_kept(
    State& state, const Block& block, const float* mask, int consumer, int row, int lane) {
  KeptPowers kept;
  const float lift = lift_of(state.shares_step());
  #pragma unroll
  for (int tile = 0; tile < TILES; ++tile)
    if (tile < block.tiles) {
      Scores z;
      RowPairs rescale;
      score_step(z, state, block, mask, consumer, {row, tile * TILE_KEYS}, tile, lane);
      raise_online(z, state.top, state.total, rescale, state.factor, lift);
      kept.keep(z, tile, state.top);
    }
  state.settle();
  #pragma unroll
  for (int tile = 0; tile < TILES; ++tile)
    if (tile < block.tiles) weigh_kept(state, kept, block, tile, lane);
}

__device__ __forceinline__ void consume_twice(
    State& state, const Block& block, const float* mask, int consumer, int row, int lane) {
  #pragma unroll 1
  for (int tile = 0; tile < block.tiles; ++tile) {
    Scores z;
    score_step(z, state, block, mask, consumer, {row, tile * TILE_KEYS}, tile, lane);
    measure_rows(z, state.top, state.total, state.factor);
  }
  state.settle();
  #pragma unroll 1
  for (int tile = 0; tile < block.tiles; ++tile) {
    Scores z;
    const Corner corner = {row, tile * TILE_KEYS};
    score_step(z, state, block, mask, consumer, corner, block.tiles + tile, lane);
    state.raise_measured(z);
    weigh_tile(state, z, block, tile, lane);
  }
}

__device__ __forceinline__ void consume(
    State& state, const Block& block, const float* mask, int consumer, int row, int lane) {
  state.look_at_queries(block.own(consumer), row / 16 % 4, lane);
  if constexpr (KEEPS_POWERS) {
    consume_kept(state, block, mask, consumer, row, lane);
  } else if constexpr (TWICE) {
    consume_twice(state, block, mask, consumer, row, lane);
  } else {
    Scores z;
    RowPairs rescale;
    score_step(z, state, block, mask, consumer, {row, 0}, 0, lane);
    raise_online(z, state.top, state.total, rescale, state.factor);
    state.settle();
    weigh_tile(state, z, block, 0, lane);
  }
}
"""
