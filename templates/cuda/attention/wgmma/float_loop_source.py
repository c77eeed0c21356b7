"""CUDA source of a consumer's loop over tiles of keys, of floats."""

FLOAT_LOOP = r"""
__device__ __forceinline__ void help(
    const Blocks& blocks, const Maps& maps, int helper, int lane) {
  wait_for_kernels();
  if (helper != 0 || lane != 0) return;
  const Block block = blocks.nth(0);
  load_queries(block, maps);
  #pragma unroll 1
  for (int step = 0; step < block.tiles; ++step) load_step(block, maps, step);
}

// A consumer's turn at the tensor cores: it starts its products, and the next one does.
struct Turns {
  int consumer;
  __device__ __forceinline__ void begin() const {
    if constexpr (TURNS) if (consumer == 0) pass_by(FIRST_TURN, 256);
  }
  __device__ __forceinline__ void wait() const {
    if constexpr (TURNS) meet(FIRST_TURN + consumer, 256);
  }
  __device__ __forceinline__ void pass_on() const {
    if constexpr (TURNS)
      pass_by(FIRST_TURN + (consumer == CONSUMERS - 1 ? 0 : consumer + 1), 256);
  }
};

// The scores of a tile are computed while the products of the tile before run.
__device__ __forceinline__ void consume_ahead(
    State& state, const Block& block, const float* mask, int consumer, int row, int lane) {
  const unsigned queries = block.own(consumer);
  const Turns turns = {consumer};
  Scores z;
  Shares shares;
  turns.begin();
  wait_for(block.barrier(KEYS_THERE, 0), 0);
  start_scores(z, queries, block.keys(0));
  wait_for_products<0>();
  leave(block.barrier(KEYS_LEFT, 0), lane);
  state.raise(z, mask, {row, 0}, lane);
  state.share(shares, z);
  #pragma unroll 1
  for (int tile = 1; tile < block.tiles; ++tile) {
    const int stage = stage_of(tile), before = stage_of(tile - 1);
    wait_for(block.barrier(KEYS_THERE, stage), phase_of(tile));
    turns.wait();
    start_scores(z, queries, block.keys(stage));
    wait_for(block.barrier(VALUES_THERE, before), phase_of(tile - 1));
    start_values(state.sums, shares, block.values(before));
    turns.pass_on();
    wait_for_products<1>();
    leave(block.barrier(KEYS_LEFT, stage), lane);
    state.raise(z, mask, {row, tile * TILE_KEYS}, lane);
    wait_for_products<0>();
    leave(block.barrier(VALUES_LEFT, before), lane);
    state.catch_up();
    state.share(shares, z);
  }
  const int last = block.tiles - 1;
  wait_for(block.barrier(VALUES_THERE, stage_of(last)), phase_of(last));
  start_values(state.sums, shares, block.values(stage_of(last)));
  wait_for_products<0>();
}

// One tile after the other.
__device__ __forceinline__ void consume_in_turn(
    State& state, const Block& block, const float* mask, int consumer, int row, int lane) {
  const unsigned queries = block.own(consumer);
  const Turns turns = {consumer};
  turns.begin();
  turns.wait();
  #pragma unroll 1
  for (int tile = 0; tile < block.tiles; ++tile) {
    const int stage = stage_of(tile);
    Scores z;
    Shares shares;
    wait_for(block.barrier(KEYS_THERE, stage), phase_of(tile));
    start_scores(z, queries, block.keys(stage));
    turns.pass_on();
    wait_for_products<0>();
    leave(block.barrier(KEYS_LEFT, stage), lane);
    state.raise(z, mask, {row, tile * TILE_KEYS}, lane);
    state.catch_up();
    state.share(shares, z);
    wait_for(block.barrier(VALUES_THERE, stage), phase_of(tile));
    turns.wait();
    start_values(state.sums, shares, block.values(stage));
    wait_for_products<0>();
    leave(block.barrier(VALUES_LEFT, stage), lane);
  }
  turns.pass_on();
}

__device__ __forceinline__ void consume(
    State& state, const Block& block, const float* mask, int consumer, int row, int lane) {
  if constexpr (AHEAD) consume_ahead(state, block, mask, consumer, row, lane);
  else consume_in_turn(state, block, mask, consumer, row, lane);
}
"""
