"""CUDA source of a block of attention on wgmma: what lies where, the producer, and the store."""

BLOCK = r"""
constexpr int ROW_TILES = 1, KEY_TILES = TILE_KEYS / 8, OUT_TILES = DEPTH / 8;
constexpr int TILES = (KEYS + TILE_KEYS - 1) / TILE_KEYS, ROWS = CONSUMERS * 64;
// A part of a tile is LINE bytes of each of its rows.
constexpr int PARTS = (DEPTH * SIZE + LINE - 1) / LINE, PART_VALUES = LINE / SIZE;
constexpr int DEPTH_STEPS = (DEPTH * SIZE + 31) / 32, PART_STEPS = LINE / 32;
constexpr int QUERY_PART = 64 * LINE, OWN_BYTES = PARTS * QUERY_PART;
constexpr int KEY_PART = TILE_KEYS * LINE, TILE_BYTES = PARTS * KEY_PART;
constexpr int KEYS_AT = CONSUMERS * OWN_BYTES, VALUES_AT = KEYS_AT + STAGES * TILE_BYTES;
constexpr int FIRST_TURN = 1, FIRST_OWN = 4;  // named barriers of consumers

struct Maps { Map q, k, v, y; };

struct Block {
  unsigned smem;
  int pair, first_row, tiles;

  __device__ __forceinline__ Block(const void* shared, int block) {
    smem = shared_address(shared);
    // Of causal ones the last rows see most keys, and begin first.
    const int rows = CAUSAL ? ROW_BLOCKS - 1 - block / PAIRS : block % ROW_BLOCKS;
    pair = CAUSAL ? block % PAIRS : block / ROW_BLOCKS;
    first_row = rows * ROWS;
    tiles = TILES;
    if (CAUSAL) {
      const int last = min(first_row + ROWS, QUERIES) - 1 + KEYS - QUERIES;
      tiles = last / TILE_KEYS + 1;
    }
  }
  __device__ __forceinline__ unsigned own(int consumer) const { return smem + consumer * OWN_BYTES; }
  __device__ __forceinline__ unsigned keys(int stage) const {
    return smem + KEYS_AT + stage * TILE_BYTES;
  }
  __device__ __forceinline__ unsigned values(int stage) const {
    return smem + VALUES_AT + stage * TILE_BYTES;
  }
  __device__ __forceinline__ unsigned barrier(int number) const {
    return smem + BARRIERS_AT + 8 * number;
  }
  __device__ __forceinline__ unsigned of_queries() const { return barrier(0); }
  __device__ __forceinline__ unsigned keys_full(int stage) const { return barrier(1 + stage); }
  __device__ __forceinline__ unsigned keys_empty(int stage) const {
    return barrier(1 + STAGES + stage);
  }
  __device__ __forceinline__ unsigned values_full(int stage) const {
    return barrier(1 + 2 * STAGES + stage);
  }
  __device__ __forceinline__ unsigned values_empty(int stage) const {
    return barrier(1 + 3 * STAGES + stage);
  }
  __device__ __forceinline__ void start_barriers() const {
    start_barrier(of_queries(), 1);
    for (int stage = 0; stage < STAGES; ++stage) {
      start_barrier(keys_full(stage), 1);
      start_barrier(values_full(stage), 1);
      start_barrier(keys_empty(stage), 4 * CONSUMERS);
      start_barrier(values_empty(stage), 4 * CONSUMERS);
    }
    publish_barriers();
  }
};

__device__ __forceinline__ void load_tile(
    const Block& block, Map map, int tile, unsigned to, unsigned full) {
  expect_bytes(full, TILE_BYTES);
  #pragma unroll
  for (int part = 0; part < PARTS; ++part)
    load_box(to + part * KEY_PART, map, part * PART_VALUES, tile * TILE_KEYS, block.pair % HEADS,
             block.pair / HEADS, full);
}

// By one thread: queries, then keys and values of all tiles as their stages are left.
__device__ __forceinline__ void produce(const Block& block, const Maps& maps) {
  expect_bytes(block.of_queries(), CONSUMERS * OWN_BYTES);
  #pragma unroll
  for (int consumer = 0; consumer < CONSUMERS; ++consumer)
    #pragma unroll
    for (int part = 0; part < PARTS; ++part)
      load_box(block.own(consumer) + part * QUERY_PART, maps.q, part * PART_VALUES,
               block.first_row + consumer * 64, block.pair % HEADS, block.pair / HEADS,
               block.of_queries());
  #pragma unroll 1
  for (int tile = 0; tile < block.tiles; ++tile) {
    const int stage = tile % STAGES;
    const unsigned left = tile / STAGES % 2 ^ 1;
    wait_for(block.keys_empty(stage), left);
    load_tile(block, maps.k, tile, block.keys(stage), block.keys_full(stage));
    wait_for(block.values_empty(stage), left);
    load_tile(block, maps.v, tile, block.values(stage), block.values_full(stage));
  }
}

// A consumer's rows of y, which take the place of its queries, to memory.
template <class State> __device__ __forceinline__ void store_own(
    State& state, const Block& block, Map map, int consumer, int warp, int lane) {
  const unsigned own = block.own(consumer);
  meet(FIRST_OWN + consumer, 128);  // all products with the queries are done
  state.finish([&](const auto& values, int r, int column) {
    const unsigned at = swizzled<LINE>((warp * 16 + r) * LINE + column % PART_VALUES * SIZE);
    asm volatile("st.shared.b32 [%0], %1;"
                 :: "r"(own + column / PART_VALUES * QUERY_PART + at), "r"(state.word_of(values))
                 : "memory");
  }, lane);
  fence_shared();
  meet(FIRST_OWN + consumer, 128);
  if (warp == 0 && lane == 0) {
    #pragma unroll
    for (int part = 0; part < PARTS; ++part)
      store_box(map, part * PART_VALUES, block.first_row + consumer * 64, block.pair % HEADS,
                block.pair / HEADS, own + part * QUERY_PART);
    wait_for_stores();
  }
}
// Rows of floats, which go to memory from registers.
template <class State> __device__ __forceinline__ void store_floats(
    State& state, const Block& block, float* y, int consumer, int warp, int lane) {
  const int row = block.first_row + consumer * 64 + warp * 16;
  const int start = Y_PITCH == DEPTH * 4
      ? block.pair * (QUERIES * DEPTH)
      : block.pair / HEADS * (QUERIES * (Y_PITCH / 4)) + block.pair % HEADS * DEPTH;
  state.finish([&](const auto& values, int r, int column) {
    constexpr int COUNT = sizeof(values) / 4;
    if (row + r >= QUERIES || column >= DEPTH) return;
    float* at = y + start + (row + r) * (Y_PITCH / 4) + column;
    if constexpr (COUNT == 4)
      *reinterpret_cast<float4*>(at) = make_float4(values[0], values[1], values[2], values[3]);
    else *reinterpret_cast<float2*>(at) = make_float2(values[0], values[1]);
  }, lane);
}
"""
"""Constants are those of `kernel.py`."""
