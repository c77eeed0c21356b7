"""CUDA source of a block of a batched product on wgmma: what lies where, loads, and the ring."""

BLOCK = r"""
constexpr int WARPGROUPS = COLUMNS * ROW_GROUPS, WARPS = 4 * WARPGROUPS;
constexpr int BLOCK_ROWS = ROW_GROUPS * ROWS, STEP_K = LINE / SIZE, MMA_STEPS = LINE / 32;
constexpr int GROUP_BYTES = ROWS * LINE, OTHER_AT = BLOCK_ROWS * LINE;
constexpr int PART_BYTES = 64 * LINE;
constexpr int PARTS = COLUMNS * PASSES, STAGE_BYTES = OTHER_AT + PARTS * PART_BYTES;
constexpr int OTHER_LINE = TURNED ? 64 * SIZE : LINE;
constexpr int ROW_TILES = ROWS / 8;
// Rows of a box of other that a block of a cluster loads.
constexpr int OTHER_ROWS = (TURNED ? STEP_K : 64 * BOX_PARTS) / CLUSTER;

struct Maps { Map x, other, y; };

struct Block {
  unsigned smem;
  int rank, pair, first_row, first_column;

  __device__ __forceinline__ Block(const void* shared, int block) {
    smem = shared_address(shared);
    rank = block % CLUSTER;
    first_row = block % TILES_M * BLOCK_ROWS;
    first_column = block / TILES_M % TILES_N * (64 * PARTS);
    pair = block / (TILES_N * TILES_M);
  }
  __device__ __forceinline__ unsigned x(int step, int row_group) const {
    return smem + step % STAGES * STAGE_BYTES + row_group * GROUP_BYTES;
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

// To the same place in all blocks of a cluster, whose barriers count the bytes.
__device__ __forceinline__ void load_box_for_all(
    unsigned to, Map map, int i0, int i1, int i2, int i3, unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], %7;"
               :: "r"(to), "l"(map), "r"(i0), "r"(i1), "r"(i2), "r"(i3), "r"(barrier),
                  "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}
// By one thread: what a block loads for itself, and what it shares.
__device__ __forceinline__ void load_x(const Block& block, const Maps& maps, int step) {
  const unsigned there = block.there(stage_of(step));
  expect_bytes(there, STAGE_BYTES);
  #pragma unroll
  for (int r = 0; r < ROW_GROUPS; ++r)
    load_box(block.x(step, r), maps.x, step * STEP_K, block.first_row + r * ROWS,
             block.pair % HEADS, block.pair / HEADS, there);
}
__device__ __forceinline__ void load_other(const Block& block, const Maps& maps, int step) {
  const int own = block.rank * OTHER_ROWS, k = step * STEP_K;
  #pragma unroll
  for (int part = 0; part < PARTS; part += BOX_PARTS) {
    const int column = block.first_column + 64 * part;
    const unsigned to = block.other(stage_of(step), part) + own * OTHER_LINE;
    const int i0 = TURNED ? column : k, i1 = (TURNED ? k : column) + own;
    const int head = block.pair % HEADS, batch = block.pair / HEADS;
    const unsigned there = block.there(stage_of(step));
    if constexpr (CLUSTER > 1) load_box_for_all(to, maps.other, i0, i1, head, batch, there);
    else load_box(to, maps.other, i0, i1, head, batch, there);
  }
}
// Stages are asked for as soon as their barriers are there: by all threads, of which one does it.
__device__ __forceinline__ void begin_barriers(const Block& block, const Maps& maps) {
  prefetch_map(maps.x);
  prefetch_map(maps.other);
  for (int stage = 0; stage < STAGES; ++stage) {
    start_barrier(block.there(stage), 1);
    start_barrier(block.left(stage), WARPS);
  }
  publish_barriers();
}
__device__ __forceinline__ void begin_loads(const Block& block, const Maps& maps, int thread) {
  if (thread == 0) begin_barriers(block, maps);
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if constexpr (CLUSTER > 1) {
    if (thread == 0)
      for (int step = 0; step < STEPS; ++step) load_x(block, maps, step);
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (thread == 0)
      for (int step = 0; step < STEPS; ++step) load_other(block, maps, step);
  } else if (thread == 0) {
    #pragma unroll 1
    for (int step = 0; step < (STAGES < STEPS ? STAGES : STEPS); ++step) {
      load_x(block, maps, step);
      load_other(block, maps, step);
    }
  }
}
// The products of a step have ended; its stage is loaded again when all warps have left it.
__device__ __forceinline__ void leave_step(
    const Block& block, const Maps& maps, int step, int thread) {
  if constexpr (STEPS > STAGES) {
    if (thread % 32 == 0) arrive_at(block.left(stage_of(step)));
    if (thread == 0 && step + STAGES < STEPS) {
      wait_for(block.left(stage_of(step)), phase_of(step));
      load_x(block, maps, step + STAGES);
      load_other(block, maps, step + STAGES);
    }
    __syncwarp();
  }
}
"""
"""Constants are those of `kernel.py`."""
