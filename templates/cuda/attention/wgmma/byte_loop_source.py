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
  wait_for_products<0>();
  if (state.q_zero != 0) wait_for(block.barrier(SUMS_THERE, stage), phase_of(step));
  state.score_all(z, products, mask, corner, block.sums(stage), lane);
  leave(block.barrier(KEYS_LEFT, stage), lane);
  hide(z, corner, lane);
}
// Powers of a tile become shares, which weigh their values.
__device__ __forceinline__ void weigh_tile(
    State& state, Scores& z, const Block& block, int tile, int lane) {
  Shares shares;
  state.cut_powers(z);
  #pragma unroll
  for (int step = 0; step < TILE_KEYS / 32; ++step) state.share(shares[step], z, 0, step);
  wait_for(block.barrier(TURNED_THERE, stage_of(tile)), phase_of(tile));
  state.start_values(shares, block.turned(stage_of(tile)));
  wait_for_products<0>();
  leave(block.barrier(TURNED_LEFT, stage_of(tile)), lane);
}

__device__ __forceinline__ void consume_kept(
    State& state, const Block& block, const float* mask, int consumer, int row, int lane) {
  Scores powers[KEEPS_POWERS ? TILES : 1];
  RowPairs tops[KEEPS_POWERS ? TILES : 1];  // the largest scores up to a tile, under its powers
  #pragma unroll
  for (int tile = 0; tile < TILES; ++tile)
    if (tile < block.tiles) {
      RowPairs rescale;
      score_step(powers[tile], state, block, mask, consumer, {row, tile * TILE_KEYS}, tile, lane);
      raise_online(powers[tile], state.top, state.total, rescale, state.factor, state.near);
      tops[tile] = state.top;
    }
  state.settle();
  const RowPairs inverse = state.inverse;
  #pragma unroll
  for (int tile = 0; tile < TILES; ++tile)
    if (tile < block.tiles) {
      #pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float moved = tops[tile].of[0][half] - base_of(state.top.of[0][half]);
        state.inverse.of[0][half] = inverse.of[0][half] * power_of_two(moved * state.factor);
      }
      weigh_tile(state, powers[tile], block, tile, lane);
    }
}

__device__ __forceinline__ void consume_twice(
    State& state, const Block& block, const float* mask, int consumer, int row, int lane) {
  #pragma unroll 1
  for (int tile = 0; tile < block.tiles; ++tile) {
    Scores z;
    score_step(z, state, block, mask, consumer, {row, tile * TILE_KEYS}, tile, lane);
    measure_rows(z, state.top, state.total, state.factor, state.near);
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
    raise_online(z, state.top, state.total, rescale, state.factor, state.near);
    state.settle();
    weigh_tile(state, z, block, 0, lane);
  }
}
"""
