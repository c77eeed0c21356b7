"""CUDA source of a consumer's loop over tiles of keys, of bytes."""

BYTE_LOOP = r"""
// Scores of the tile that a step of the ring brings.
__device__ __forceinline__ void score_step(
    Scores& z, const State& state, const Block& block, const float* mask, int consumer,
    Corner corner, int step, int lane) {
  const int stage = stage_of(step);
  Products products;
  wait_for(block.barrier(KEYS_THERE, stage), phase_of(step));
  state.start_scores(products, block.own(consumer), block.keys(stage));
  if (state.q_zero != 0) wait_for(block.barrier(SUMS_THERE, stage), phase_of(step));
  wait_for_products<0>();
  state.score_all(z, products, block.sums(stage), mask, corner, lane);
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

// Four scores of a thread as bytes, above the least that there are.
struct KeptScores {
  unsigned words[KEEPS_SCORES ? TILES : 1][KEY_TILES];

  __device__ __forceinline__ void keep(const Scores& z, int tile, float least) {
    #pragma unroll
    for (int t = 0; t < KEY_TILES; ++t) {
      unsigned bits[4];
      #pragma unroll
      for (int e = 0; e < 4; ++e) bits[e] = __float_as_uint(__fadd_rn(z[0][t][e], ROUNDS - least));
      words[tile][t] = __byte_perm(__byte_perm(bits[0], bits[1], 0x0040),
                                   __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
    }
  }
  __device__ __forceinline__ void look_back(Scores& z, int tile, float least) const {
    const float zero = 8388608.f - least;  // what a byte as the last one of a float is more than
    #pragma unroll
    for (int t = 0; t < KEY_TILES; ++t)
      #pragma unroll
      for (int e = 0; e < 4; ++e)
        z[0][t][e] = __fsub_rn(
            __uint_as_float(__byte_perm(words[tile][t], 0x4B000000u, 0x7440u + e)), zero);
  }
};

__device__ __forceinline__ void consume_kept(
    State& state, const Block& block, const float* mask, int consumer, int row, int lane) {
  KeptScores kept;
  #pragma unroll
  for (int tile = 0; tile < TILES; ++tile)
    if (tile < block.tiles) {
      Scores z;
      const Corner corner = {row, tile * TILE_KEYS};
      score_step(z, state, block, mask, consumer, corner, tile, lane);
      kept.keep(z, tile, state.least());
      measure_rows(z, state.top, state.total, state.factor);
    }
  state.measured();
  #pragma unroll
  for (int tile = 0; tile < TILES; ++tile)
    if (tile < block.tiles) {
      Scores z;
      kept.look_back(z, tile, state.least());
      hide(z, {row, tile * TILE_KEYS}, lane);
      state.raise_measured(z);
      weigh_tile(state, z, block, tile, lane);
    }
}

__device__ __forceinline__ void consume_twice(
    State& state, const Block& block, const float* mask, int consumer, int row, int lane) {
  #pragma unroll 1
  for (int tile = 0; tile < block.tiles; ++tile) {
    Scores z;
    score_step(z, state, block, mask, consumer, {row, tile * TILE_KEYS}, tile, lane);
    measure_rows(z, state.top, state.total, state.factor);
  }
  state.measured();
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
  if constexpr (KEEPS_SCORES) {
    consume_kept(state, block, mask, consumer, row, lane);
  } else if constexpr (TWICE) {
    consume_twice(state, block, mask, consumer, row, lane);
  } else {
    Scores z;
    RowPairs rescale;
    score_step(z, state, block, mask, consumer, {row, 0}, 0, lane);
    raise_online(z, state.top, state.total, rescale, state.factor);
    state.measured();
    weigh_tile(state, z, block, 0, lane);
  }
}
"""
