"""CUDA source of the warps that prepare bytes: values become rows of keys, and keys are added up.

wgmma takes bytes of B along the keys alone. `ldmatrix.trans` gives words of two keys of two
columns, of which byte permutes make words of four keys of one column.
"""

TURN = r"""
// A turned tile has 32 keys in each row of LINE_TURNED bytes, a step of wgmma, for each column.
constexpr int LINE_TURNED = 32, STEP_TURNED = DEPTH * LINE_TURNED;

// 16 columns of a tile, every STRIDE-th 32 keys from `first` on. Even columns lie before odd ones,
// so that a thread's accumulators of two tiles of 8 columns are neighbours; keys lie as threads
// hold their shares. Where bytes lie in lines of 32 keys does not depend on the keys.
template <int STRIDE> __device__ __forceinline__ void turn_columns(
    unsigned values, unsigned turned, int first, int column, int lane) {
  const int part = column / LINE, byte = column % LINE;
  const unsigned from = values + part * KEY_PART + swizzled<LINE>(lane * LINE + byte);
  unsigned to[2][2];
  #pragma unroll
  for (int odd = 0; odd < 2; ++odd)
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = column + odd * 8 + lane / 4;
      to[odd][half] = turned + swizzled<LINE_TURNED>(row * LINE_TURNED + half * 16 + lane % 4 * 4);
    }
  #pragma unroll
  for (int step = 0; step < TILE_KEYS / 32; step += STRIDE) {
    if (STRIDE > 1 && step + first >= TILE_KEYS / 32) break;
    unsigned w[4];
    read_matrices<true>(w, from + (step + first) * (32 * LINE));
    #pragma unroll
    for (int odd = 0; odd < 2; ++odd)
      #pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned keys = __byte_perm(w[2 * half], w[2 * half + 1], odd ? 0x7531 : 0x6420);
        asm volatile("st.shared.b32 [%0], %1;"
                     :: "r"(to[odd][half] + (step + first) * STEP_TURNED), "r"(keys) : "memory");
      }
  }
}
// A tile, by all helpers: each has columns of its own where there are enough.
__device__ __forceinline__ void turn_values(
    unsigned values, unsigned turned, int helper, int lane) {
  constexpr int COLUMNS = DEPTH / 16;
  if constexpr (COLUMNS % HELPERS == 0) {
    #pragma unroll 1
    for (int column = helper; column < COLUMNS; column += HELPERS)
      turn_columns<1>(values, turned, 0, column * 16, lane);
  } else {
    #pragma unroll 1
    for (int column = 0; column < COLUMNS; ++column)
      turn_columns<HELPERS>(values, turned, helper, column * 16, lane);
  }
}

// What the zero point of queries takes from scores of a tile of keys.
__device__ __forceinline__ void add_keys(
    unsigned keys, unsigned sums, int q_zero, int k_zero, int helper, int lane) {
  #pragma unroll 1
  for (int key = helper * 32 + lane; key < TILE_KEYS; key += HELPERS * 32) {
    int sum = 0;
    #pragma unroll
    for (int part = 0; part < PARTS; ++part)
      #pragma unroll
      for (int byte = 0; byte < LINE; byte += 16)
        sum = add_16_bytes(keys + part * KEY_PART + swizzled<LINE>(key * LINE + byte), sum,
                           SIGNED<K>);
    asm volatile("st.shared.b32 [%0], %1;"
                 :: "r"(sums + 4 * key), "r"(taken_of(sum, q_zero, k_zero)) : "memory");
  }
}

// What consumers need of a step beside what was loaded, by all helpers.
__device__ __forceinline__ void prepare_step(
    const Block& block, int step, int q_zero, int k_zero, int helper, int lane) {
  const Steps steps = {block.tiles};
  if (steps.needs_keys(step)) {
    const int stage = stage_of(step);
    wait_for(block.barrier(KEYS_THERE, stage), block.key_phase(step));
    add_keys(block.keys(stage), block.sums(stage), q_zero, k_zero, helper, lane);
    __syncwarp();
    leave(block.barrier(SUMS_THERE, stage), lane);
    leave(block.barrier(KEYS_LEFT, stage), lane);
  }
  if (step >= steps.measuring()) {
    const int tile = steps.tile_of(step), stage = stage_of(tile);
    wait_for(block.barrier(VALUES_THERE, stage), block.value_phase(tile));
    wait_for(block.barrier(TURNED_LEFT, stage), block.value_phase(tile) ^ 1);
    turn_values(block.values(stage), block.turned(stage), helper, lane);
    fence_shared();
    __syncwarp();
    leave(block.barrier(TURNED_THERE, stage), lane);
    leave(block.barrier(VALUES_LEFT, stage), lane);
  }
}
// A step's stages are loaded again as soon as it is prepared, for the rows that come next too.
__device__ __forceinline__ void help(
    const Blocks& blocks, const Maps& maps, const int* zero_points, int helper, int lane) {
  const bool loads = helper == 0 && lane == 0;
  const int q_zero = read_now(zero_points), k_zero = read_now(zero_points + 1);
  wait_for_kernels();
  const int count = Steps{blocks.nth(0).tiles}.count(), all = blocks.count() * count;
  const auto load = [&](int step) {
    const Block block = blocks.nth(step / count);
    if (step % count == 0) load_queries(block, maps);
    load_step(block, maps, step % count);
  };
  if (loads)
    #pragma unroll 1
    for (int step = 0; step < min(STAGES, all); ++step) load(step);
  #pragma unroll 1
  for (int step = 0; step < all; ++step) {
    __syncwarp();
    prepare_step(blocks.nth(step / count), step % count, q_zero, k_zero, helper, lane);
    if (loads && step + STAGES < all) load(step + STAGES);
  }
}
"""
