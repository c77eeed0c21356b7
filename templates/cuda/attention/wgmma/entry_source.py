"""CUDA source of a block of attention on wgmma: who does what."""

ENTRY = r"""
__device__ __forceinline__ void attend(
    Map q_map, Map k_map, Map v_map, Map y_map, PARAMETERS
    void* y, const void* shared, int number, int thread) {
  const int warp = __shfl_sync(0xffffffffu, thread / 32, 0), lane = thread % 32;
  const Blocks blocks = {shared, number};
  const Maps maps = {q_map, k_map, v_map, y_map};
  if (warp == 4 * CONSUMERS && lane == 0) {
    prefetch_map(q_map);
    prefetch_map(k_map);
    prefetch_map(v_map);
    blocks.nth(0).start_barriers();
  }
  __syncthreads();
  if (warp >= 4 * CONSUMERS) {
    if constexpr (GIVES_REGISTERS)
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(PRODUCER_REGISTERS));
    help(blocks, maps, HELP warp - 4 * CONSUMERS, lane);
    return;
  }
  if constexpr (GIVES_REGISTERS)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(CONSUMER_REGISTERS));
  const int consumer = warp / 4, own_warp = warp % 4;
  if (!PERSISTENT && consumer >= blocks.nth(0).consumers) return;
  int own_lane = lane;
  const auto attend_block = [&](auto& state, const Block& block) {
    const float* own_mask =
        MASK + block.pair / HEADS * MASK_BATCH + block.pair % HEADS * MASK_HEAD;
    const int row = block.first_row + consumer * 64 + own_warp * 16;
    wait_for(block.of_queries(), block.nth % 2);
    consume(state, block, own_mask, consumer, row, own_lane);
    if (PERSISTENT && consumer >= block.consumers) return;
    if constexpr (OUT_FLOATS)
      store_floats(state, block, static_cast<float*>(y), consumer, own_warp, own_lane);
    else store_own(state, block, maps.y, consumer, own_warp, own_lane);
  };
  const auto attend_rows = [&](auto& state) {
    if constexpr (PERSISTENT) {
      const int count = blocks.count();
      #pragma unroll 1
      for (int nth = 0; nth < count; ++nth) {
        // As if lanes were others in each turn: what follows from them would fill registers.
        asm volatile("" : "+r"(own_lane));
        attend_block(state, blocks.nth(nth));
      }
      if (!OUT_FLOATS && own_warp == 0 && lane == 0) wait_for_stores<false>();
    } else attend_block(state, blocks.nth(0));
  };
  ROWS_OF_STATE
}
"""

FLOAT_ROWS = """State state;
  state.begin(scalars);
  wait_for_kernels();
  attend_rows(state);"""
BYTE_ROWS = """State<true> plain;
  plain.begin_rounding(scalars, zero_points);
  const bool is_plain = plain.is_plain();
  wait_for_kernels();
  if (is_plain) return attend_rows(plain);
  State<false> state;
  state.begin_rounding(scalars, zero_points);
  attend_rows(state);"""
"""How the rows of a consumer are computed; `attend_rows` is that of `ENTRY`."""
