"""CUDA source of a block of attention: its rows, the ring of keys and values, and the store."""

BLOCK = r"""
struct Block {
  const unsigned char *q, *k, *v;
  const float* mask;
  char* shared;
  unsigned smem;
  int first_row, tiles;

  __device__ __forceinline__ unsigned stage(int number) const {
    return smem + ROWS * PITCH + number * (2 * TILE_BYTES);
  }
  __device__ __forceinline__ void fetch_keys(int tile, int to, int thread) const {
    copy_rows<TILE_KEYS, KEYS, K_PITCH>(stage(to), k, tile * TILE_KEYS, thread);
  }
  __device__ __forceinline__ void fetch_values(int tile, int to, int thread) const {
    copy_rows<TILE_KEYS, KEYS, V_PITCH>(stage(to) + TILE_BYTES, v, tile * TILE_KEYS, thread);
  }
};

__device__ __forceinline__ Block block_of(
    const void* q, const void* k, const void* v, const float* mask, void* shared, int block) {
  const int pair = block / ROW_BLOCKS, first_row = block % ROW_BLOCKS * ROWS;
  const auto at = [pair](const void* array, int rows, int pitch) {
    return static_cast<const unsigned char*>(array) + matrix_start(pair, rows, pitch);
  };
  int tiles = TILES;
  if (CAUSAL) {
    const int last = min(first_row + ROWS, QUERIES) - 1 + KEYS - QUERIES;
    tiles = last / TILE_KEYS + 1;
  }
  return {at(q, QUERIES, Q_PITCH), at(k, KEYS, K_PITCH), at(v, KEYS, V_PITCH),
          mask + pair / HEADS * MASK_BATCH + pair % HEADS * MASK_HEAD,
          static_cast<char*>(shared), (unsigned)__cvta_generic_to_shared(shared), first_row, tiles};
}

// What a step needs of keys and values: each tile once, or twice where rows are measured first.
__device__ __forceinline__ void fetch_step(const Block& block, int step, int thread) {
  const int measuring = TWICE ? block.tiles : 0;
  const int tile = step < measuring ? step : step - measuring;
  if (step < block.tiles + measuring) {
    if (!KEEPS_SCORES || step < measuring) block.fetch_keys(tile, step % STAGES, thread);
    if (step >= measuring) block.fetch_values(tile, step % STAGES, thread);
  }
  commit_copies();
}
// What a block can ask for before it knows anything else.
__device__ __forceinline__ void fetch_first(const Block& block, int thread) {
  copy_rows<ROWS, QUERIES, Q_PITCH>(block.smem, block.q, block.first_row, thread);
  if constexpr (TILES == 1) {
    block.fetch_keys(0, 0, thread);
    commit_copies();
    block.fetch_values(0, 0, thread);
    commit_copies();
  } else {
    #pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) fetch_step(block, step, thread);
  }
}

// All keys in one tile: values are on their way while scores are computed.
template <class State, class Begin> __device__ __forceinline__ void attend_at_once(
    State& state, const Block& block, Begin begin, int row, int thread) {
  const int lane = thread % 32;
  wait_for_copies<1>();
  __syncthreads();
  state.prepare(block.stage(0), block.shared, 0, thread);
  begin();
  state.meet();
  Scores z;
  state.look_at(z, block.stage(0), block.mask, {row, 0}, false, block.shared, lane);
  wait_for_copies<0>();
  __syncthreads();
  state.weigh(z, block.stage(0) + TILE_BYTES, lane);
}

template <class State, class Begin> __device__ __forceinline__ void attend_in_turn(
    State& state, const Block& block, Begin begin, int row, int thread) {
  const int lane = thread % 32, measuring = TWICE ? block.tiles : 0;
  const int steps = block.tiles + measuring;
  wait_for_copies<STAGES - 2>();
  __syncthreads();
  begin();
  #pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<STAGES - 2>();
    __syncthreads();
    fetch_step(block, step + STAGES - 1, thread);
    const int tile = step < measuring ? step : step - measuring;
    const unsigned keys = block.stage(step % STAGES);
    if (!TWICE || step < measuring) {
      state.prepare(keys, block.shared, tile, thread);
      state.meet();
    }
    Scores z;
    const Corner corner = {row, tile * TILE_KEYS};
    state.look_at(z, keys, block.mask, corner, step < measuring, block.shared, lane);
    if (step + 1 == measuring) state.measured();
    if (step >= measuring) state.weigh(z, keys + TILE_BYTES, lane);
  }
}

template <class State, class Begin> __device__ __forceinline__ void attend_block(
    State& state, const Block& block, void* shared, void* y, Begin begin, int pair, int thread) {
  const int lane = thread % 32, of_warp = thread / 32 * (ROW_TILES * 16);
  const int row = block.first_row + of_warp;
  if constexpr (TILES == 1) attend_at_once(state, block, begin, row, thread);
  else attend_in_turn(state, block, begin, row, thread);
  if constexpr (OUT_FLOATS) {
    float* to = static_cast<float*>(y);
    const int start = Y_PITCH == DEPTH ? pair * (QUERIES * DEPTH)
                                       : pair / HEADS * (QUERIES * Y_PITCH) + pair % HEADS * DEPTH;
    state.finish([&](const auto& values, int r, int column) {
      constexpr int COUNT = sizeof(values) / 4;
      if (row + r >= QUERIES || column >= DEPTH) return;
      float* at = to + start + (row + r) * Y_PITCH + column;
      if constexpr (COUNT == 4)
        *reinterpret_cast<float4*>(at) = make_float4(values[0], values[1], values[2], values[3]);
      else *reinterpret_cast<float2*>(at) = make_float2(values[0], values[1]);
    }, lane);
  } else {
    // A warp's rows of y take the place of its queries, which no other warp reads.
    unsigned char* staged = static_cast<unsigned char*>(shared) + of_warp * PITCH;
    __syncwarp();
    state.finish([&](const auto& values, int r, int column) {
      *reinterpret_cast<unsigned*>(staged + r * PITCH + column * SIZE) = state.word_of(values);
    }, lane);
    __syncwarp();
    unsigned char* to = static_cast<unsigned char*>(y) + matrix_start(pair, QUERIES, Y_PITCH);
    store_rows(to, staged, row, lane);
  }
}
"""
