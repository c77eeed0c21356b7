"""CUDA source of a block of attention on wgmma: what lies where, the producer, and the store."""

BLOCK = r"""
constexpr int ROW_TILES = 1, KEY_TILES = TILE_KEYS / 8, OUT_TILES = DEPTH / 8;
constexpr int TILES = (KEYS + TILE_KEYS - 1) / TILE_KEYS, ROWS = CONSUMERS * 64;
// A part of a tile is LINE bytes of each of its rows.
constexpr int PARTS = (DEPTH * SIZE + LINE - 1) / LINE, PART_VALUES = LINE / SIZE;
constexpr int DEPTH_STEPS = (DEPTH * SIZE + 31) / 32, PART_STEPS = LINE / 32;
constexpr int QUERY_PART = 64 * LINE, OWN_BYTES = PARTS * QUERY_PART;
constexpr int KEY_PART = TILE_KEYS * LINE, TILE_BYTES = PARTS * KEY_PART;
// Rows of y have their own place where the next queries arrive meanwhile.
constexpr int Y_AT = PERSISTENT ? CONSUMERS * OWN_BYTES : 0;
constexpr int KEYS_AT = Y_AT + CONSUMERS * OWN_BYTES, VALUES_AT = KEYS_AT + STAGES * TILE_BYTES;
// Of bytes, values as they are multiplied and sums of keys lie behind them.
constexpr int TURNED_AT = VALUES_AT + STAGES * TILE_BYTES, TURNED_BYTES = TILE_KEYS * DEPTH;
constexpr int SUMS_AT = TURNED_AT + STAGES * TURNED_BYTES;
constexpr int FIRST_TURN = 1, FIRST_OWN = FIRST_TURN + CONSUMERS;  // named barriers of consumers
constexpr int BOTH = FIRST_OWN + CONSUMERS;

// What a stage has a barrier for: that it is there, and that all who read it have left it.
enum { KEYS_THERE, KEYS_LEFT, VALUES_THERE, VALUES_LEFT, TURNED_THERE, TURNED_LEFT, SUMS_THERE };
// Steps that bring keys for the rows of a block.
constexpr int KEY_STEPS = TWICE && !KEEPS_POWERS ? 2 * TILES : TILES;
constexpr int HELPERS = GIVES_REGISTERS ? 4 : 1;  // warps that load, and turn bytes

struct Maps { Map q, k, v, y; };

struct Block {
  unsigned smem;
  int nth, pair, first_row, tiles, consumers;

  // What is `nth` to be computed in its shared memory.
  __device__ __forceinline__ Block(const void* shared, int block, int nth) : nth(nth) {
    smem = shared_address(shared);
    // Of causal ones the last rows see most keys, and begin first.
    const int rows = CAUSAL ? ROW_BLOCKS - 1 - block / PAIRS : block % ROW_BLOCKS;
    pair = CAUSAL ? block % PAIRS : block / ROW_BLOCKS;
    first_row = rows * ROWS;
    tiles = TILES;
    consumers = CONSUMERS;
    // Blocks of the last pairs are small, so that they spread over all multiprocessors.
    if (SMALL > 0 && block >= FULL_PAIRS * ROW_BLOCKS) {
      const int small = block - FULL_PAIRS * ROW_BLOCKS;
      pair = FULL_PAIRS + small / SMALL_BLOCKS;
      first_row = small % SMALL_BLOCKS * (64 * SMALL);
      consumers = SMALL;
    }
    if (CAUSAL) {
      const int last = min(first_row + ROWS, QUERIES) - 1 + KEYS - QUERIES;
      tiles = last / TILE_KEYS + 1;
    }
  }
  __device__ __forceinline__ unsigned own(int consumer) const {
    return smem + consumer * OWN_BYTES;
  }
  __device__ __forceinline__ unsigned own_y(int consumer) const {
    return smem + Y_AT + consumer * OWN_BYTES;
  }
  __device__ __forceinline__ unsigned keys(int stage) const {
    return smem + KEYS_AT + stage * TILE_BYTES;
  }
  __device__ __forceinline__ unsigned values(int stage) const {
    return smem + VALUES_AT + stage * TILE_BYTES;
  }
  __device__ __forceinline__ unsigned turned(int stage) const {
    return smem + TURNED_AT + stage * TURNED_BYTES;
  }
  __device__ __forceinline__ unsigned sums(int stage) const {
    return smem + SUMS_AT + stage * (4 * TILE_KEYS);
  }
  __device__ __forceinline__ unsigned of_queries() const { return smem + BARRIERS_AT; }
  __device__ __forceinline__ unsigned queries_left() const { return of_queries() + 8; }
  __device__ __forceinline__ unsigned barrier(int what, int stage) const {
    return of_queries() + 8 * (2 + what * STAGES + stage);
  }
  // Of steps of the rings, which go on where they were when the rows before had ended.
  __device__ __forceinline__ unsigned key_phase(int step) const {
    return (step / STAGES + (PERSISTENT ? nth * (KEY_STEPS / STAGES) : 0)) % 2;
  }
  __device__ __forceinline__ unsigned value_phase(int tile) const {
    return (tile / STAGES + (PERSISTENT ? nth * (TILES / STAGES) : 0)) % 2;
  }
  __device__ __forceinline__ void start_barriers() const {
    const int consumers = PERSISTENT ? CONSUMERS : this->consumers;
    start_barrier(of_queries(), 1);
    start_barrier(queries_left(), 4 * consumers);
    for (int stage = 0; stage < STAGES; ++stage) {
      start_barrier(barrier(KEYS_THERE, stage), 1);
      start_barrier(barrier(VALUES_THERE, stage), 1);
      start_barrier(barrier(KEYS_LEFT, stage), 4 * consumers + (SIZE == 1 ? HELPERS : 0));
      start_barrier(barrier(VALUES_LEFT, stage), SIZE == 1 ? HELPERS : 4 * consumers);
      if constexpr (SIZE == 1) {
        start_barrier(barrier(TURNED_THERE, stage), HELPERS);
        start_barrier(barrier(TURNED_LEFT, stage), 4 * consumers);
        start_barrier(barrier(SUMS_THERE, stage), HELPERS);
      }
    }
    publish_barriers();
  }
};

// What a block computes, one after the other.
struct Blocks {
  const void* shared;
  int number;
  __device__ __forceinline__ int count() const {
    return PERSISTENT ? (BLOCKS - number + GRID - 1) / GRID : 1;
  }
  __device__ __forceinline__ Block nth(int nth) const {
    return Block(shared, PERSISTENT ? number + nth * GRID : number, nth);
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

// Constants have been asked for: what the kernels before have written comes next.
__device__ __forceinline__ void wait_for_kernels() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
__device__ __forceinline__ void leave(unsigned left, int lane) {
  if (lane == 0) arrive_at(left);
}
// Steps of a ring, one after the other, in its stages.
__device__ __forceinline__ int stage_of(int step) { return step % STAGES; }
__device__ __forceinline__ unsigned phase_of(int step) { return step / STAGES % 2; }

// By one thread, as the rest of what loads.
__device__ __forceinline__ void load_queries(const Block& block, const Maps& maps) {
  if constexpr (PERSISTENT) wait_for(block.queries_left(), block.nth % 2 ^ 1);
  expect_bytes(block.of_queries(), block.consumers * OWN_BYTES);
  for (int consumer = 0; consumer < block.consumers; ++consumer)
    #pragma unroll
    for (int part = 0; part < PARTS; ++part)
      load_box(block.own(consumer) + part * QUERY_PART, maps.q, part * PART_VALUES,
               block.first_row + consumer * 64, block.pair % HEADS, block.pair / HEADS,
               block.of_queries());
}

// Steps of a block: one for each tile, twice where rows are measured first. The first ones need
// keys alone, and the second ones values, with keys unless their powers are kept.
struct Steps {
  int tiles;
  __device__ __forceinline__ int measuring() const { return TWICE ? tiles : 0; }
  __device__ __forceinline__ int count() const { return measuring() + tiles; }
  __device__ __forceinline__ bool needs_keys(int step) const {
    return !(TWICE && KEEPS_POWERS) || step < measuring();
  }
  __device__ __forceinline__ int tile_of(int step) const {
    return step < measuring() ? step : step - measuring();
  }
};
__device__ __forceinline__ void load_step(const Block& block, const Maps& maps, int step) {
  const Steps steps = {block.tiles};
  const int tile = steps.tile_of(step);
  if (steps.needs_keys(step)) {
    const int stage = stage_of(step);
    wait_for(block.barrier(KEYS_LEFT, stage), block.key_phase(step) ^ 1);
    load_tile(block, maps.k, tile, block.keys(stage), block.barrier(KEYS_THERE, stage));
  }
  if (step >= steps.measuring()) {
    const int stage = stage_of(tile);
    wait_for(block.barrier(VALUES_LEFT, stage), block.value_phase(tile) ^ 1);
    load_tile(block, maps.v, tile, block.values(stage), block.barrier(VALUES_THERE, stage));
  }
}

// A consumer's rows of y, which may take the place of its queries, to memory.
template <class State> __device__ __forceinline__ void store_own(
    State& state, const Block& block, Map map, int consumer, int warp, int lane) {
  const unsigned own = block.own_y(consumer);
  if (PERSISTENT && warp == 0 && lane == 0) wait_for_stores<true>();
  meet(FIRST_OWN + consumer, 128);  // all that was read from there has been
  // Rows 8 apart are swizzled alike; a thread's columns 16 bytes apart differ in those bits alone.
  const unsigned first = own + swizzled<LINE>((warp * 16 + lane / 4) * LINE + lane % 4 * 4);
  state.finish([&](const auto& values, int r, int column) {
    const int byte = column % PART_VALUES * SIZE - lane % 4 * 4;
    const unsigned at = (first ^ byte) + (r - lane / 4) * LINE;
    asm volatile("st.shared.b32 [%0], %1;"
                 :: "r"(at + column / PART_VALUES * QUERY_PART), "r"(state.word_of(values))
                 : "memory");
  }, lane);
  fence_shared();
  meet(FIRST_OWN + consumer, 128);
  if (warp == 0 && lane == 0) {
    #pragma unroll
    for (int part = 0; part < PARTS; ++part)
      store_box(map, part * PART_VALUES, block.first_row + consumer * 64, block.pair % HEADS,
                block.pair / HEADS, own + part * QUERY_PART);
    commit_stores();
    if constexpr (!PERSISTENT) wait_for_stores<false>();
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
