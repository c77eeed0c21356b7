"""CUDA source of a block of a batched product on wgmma: what lies where, loads, and the ring."""

BLOCK = r"""
constexpr int WARPGROUPS = COLUMNS * ROW_GROUPS, WARPS = 4 * WARPGROUPS;
constexpr int BLOCK_ROWS = ROW_GROUPS * ROWS, STEP_K = LINE / SIZE, MMA_STEPS = LINE / 32;
constexpr int GROUP_BYTES = ROWS * LINE, STEP_BYTES_OF_X = BLOCK_ROWS * LINE;
constexpr int PART_BYTES = 64 * LINE;
// Copies of x are there for all steps, behind the stages.
constexpr int OTHER_AT = COPIES_X ? 0 : STEP_BYTES_OF_X;
constexpr int PARTS = COLUMNS * PASSES, STAGE_BYTES = OTHER_AT + PARTS * PART_BYTES;
constexpr int OTHER_LINE = TURNED ? 64 * SIZE : LINE;
constexpr int ROW_TILES = ROWS / 8;

struct Maps { Map x, other, y; };

struct Block {
  unsigned smem;
  int pair, first_row, first_column;

  __device__ __forceinline__ Block(const void* shared, int block) {
    smem = shared_address(shared);
    first_column = block % TILES_N * (64 * PARTS);
    first_row = block / TILES_N % TILES_M * BLOCK_ROWS;
    pair = block / (TILES_N * TILES_M);
  }
  __device__ __forceinline__ unsigned x(int step, int row_group) const {
    const int from = COPIES_X ? STAGES * STAGE_BYTES + step * STEP_BYTES_OF_X
                              : step % STAGES * STAGE_BYTES;
    return smem + from + row_group * GROUP_BYTES;
  }
  __device__ __forceinline__ unsigned other(int stage, int part) const {
    return smem + stage * STAGE_BYTES + OTHER_AT + part * PART_BYTES;
  }
  __device__ __forceinline__ unsigned sum(int row) const { return smem + SUMS_AT + 4 * row; }
  __device__ __forceinline__ unsigned there(int stage) const {
    return smem + BARRIERS_AT + 8 * stage;
  }
  __device__ __forceinline__ unsigned left(int stage) const { return there(STAGES + stage); }
};

__device__ __forceinline__ int stage_of(int step) { return step % STAGES; }
__device__ __forceinline__ unsigned phase_of(int step) { return step / STAGES % 2; }

// By one thread.
__device__ __forceinline__ void load_step(const Block& block, const Maps& maps, int step) {
  const int stage = stage_of(step), k = step * STEP_K;
  const int head = block.pair % HEADS, batch = block.pair / HEADS;
  const unsigned there = block.there(stage);
  expect_bytes(there, STAGE_BYTES);
  #pragma unroll
  for (int part = 0; part < PARTS; part += BOX_PARTS) {
    const int column = block.first_column + 64 * part;
    load_box(block.other(stage, part), maps.other, TURNED ? column : k, TURNED ? k : column, head,
             batch, there);
  }
  if constexpr (COPIES_X) return;
  #pragma unroll
  for (int r = 0; r < ROW_GROUPS; ++r)
    load_box(block.x(step, r), maps.x, k, block.first_row + r * ROWS, head, batch, there);
}
// Before all threads meet: stages are asked for as soon as their barriers are there.
__device__ __forceinline__ void begin_loads(const Block& block, const Maps& maps) {
  if constexpr (!COPIES_X) prefetch_map(maps.x);
  prefetch_map(maps.other);
  for (int stage = 0; stage < STAGES; ++stage) {
    start_barrier(block.there(stage), 1);
    start_barrier(block.left(stage), WARPS);
  }
  publish_barriers();
  asm volatile("griddepcontrol.wait;" ::: "memory");
  #pragma unroll 1
  for (int step = 0; step < (STAGES < STEPS ? STAGES : STEPS); ++step)
    load_step(block, maps, step);
}
// The products of a step have ended; its stage is loaded again when all warps have left it.
__device__ __forceinline__ void leave_step(
    const Block& block, const Maps& maps, int step, int thread) {
  if constexpr (STEPS > STAGES) {
    if (thread % 32 == 0) arrive_at(block.left(stage_of(step)));
    if (thread == 0 && step + STAGES < STEPS) {
      wait_for(block.left(stage_of(step)), phase_of(step));
      load_step(block, maps, step + STAGES);
    }
    __syncwarp();
  }
}
"""
"""Constants are those of `kernel.py`."""
