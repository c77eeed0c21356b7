"""CUDA source of a consumer's loop over tiles of keys, and of the whole block."""

LOOP = r"""
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
__device__ __forceinline__ void leave(unsigned empty, int lane) {
  if (lane == 0) arrive_at(empty);
}
__device__ __forceinline__ unsigned phase_of(int tile) { return tile / STAGES % 2; }

// The scores of a tile are computed while the products of the tile before run.
__device__ __forceinline__ void consume_ahead(
    State& state, const Block& block, const float* mask, int consumer, int row, int lane) {
  const unsigned queries = block.own(consumer);
  const Turns turns = {consumer};
  Scores z;
  Shares shares;
  turns.begin();
  wait_for(block.keys_full(0), 0);
  start_scores(z, queries, block.keys(0));
  wait_for_products<0>();
  leave(block.keys_empty(0), lane);
  state.raise(z, mask, {row, 0}, lane);
  state.share(shares, z);
  #pragma unroll 1
  for (int tile = 1; tile < block.tiles; ++tile) {
    const int stage = tile % STAGES, before = (tile - 1) % STAGES;
    wait_for(block.keys_full(stage), phase_of(tile));
    turns.wait();
    start_scores(z, queries, block.keys(stage));
    wait_for(block.values_full(before), phase_of(tile - 1));
    start_values(state.sums, shares, block.values(before));
    turns.pass_on();
    wait_for_products<1>();
    leave(block.keys_empty(stage), lane);
    state.raise(z, mask, {row, tile * TILE_KEYS}, lane);
    wait_for_products<0>();
    leave(block.values_empty(before), lane);
    state.catch_up();
    state.share(shares, z);
  }
  const int last = block.tiles - 1;
  wait_for(block.values_full(last % STAGES), phase_of(last));
  start_values(state.sums, shares, block.values(last % STAGES));
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
    const int stage = tile % STAGES;
    Scores z;
    Shares shares;
    wait_for(block.keys_full(stage), phase_of(tile));
    start_scores(z, queries, block.keys(stage));
    turns.pass_on();
    wait_for_products<0>();
    leave(block.keys_empty(stage), lane);
    state.raise(z, mask, {row, tile * TILE_KEYS}, lane);
    state.catch_up();
    state.share(shares, z);
    wait_for(block.values_full(stage), phase_of(tile));
    turns.wait();
    start_values(state.sums, shares, block.values(stage));
    wait_for_products<0>();
    leave(block.values_empty(stage), lane);
  }
  turns.pass_on();
}

__device__ __forceinline__ void attend(
    Map q_map, Map k_map, Map v_map, Map y_map, PARAMETERS
    void* y, const void* shared, int number, int thread) {
  const int warp = __shfl_sync(0xffffffffu, thread / 32, 0), lane = thread % 32;
  const Block block(shared, number);
  const Maps maps = {q_map, k_map, v_map, y_map};
  if (warp == 0 && lane == 0) {
    prefetch_map(q_map);
    prefetch_map(k_map);
    prefetch_map(v_map);
    block.start_barriers();
  }
  __syncthreads();
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(PRODUCER_REGISTERS));
    if (warp == 0 && lane == 0) produce(block, maps);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(CONSUMER_REGISTERS));
  const int consumer = warp / 4 - 1, own_warp = warp % 4;
  const float* own_mask =
      MASK + block.pair / HEADS * MASK_BATCH + block.pair % HEADS * MASK_HEAD;
  State state;
  state.begin(BEGIN);
  wait_for(block.of_queries(), 0);
  const int row = block.first_row + consumer * 64 + own_warp * 16;
  if constexpr (AHEAD) consume_ahead(state, block, own_mask, consumer, row, lane);
  else consume_in_turn(state, block, own_mask, consumer, row, lane);
  if constexpr (OUT_FLOATS)
    store_floats(state, block, static_cast<float*>(y), consumer, own_warp, lane);
  else store_own(state, block, maps.y, consumer, own_warp, lane);
}
"""
