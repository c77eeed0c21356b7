"""CUDA source of a block that multiplies before it attends."""

PROJECTION = r"""
constexpr int WIDE = 3 * DEPTH, STEP_LINE = 128, GROUPS = DEPTH / 16;
constexpr int X_BYTES = ROWS * STEP_LINE, WEIGHT_BYTES = WIDE * STEP_LINE;

// Stages of x and of the weights of a head, and the head's table.
struct Ring {
  unsigned smem;
  __device__ __forceinline__ unsigned x(int stage) const {
    return smem + RING_AT + stage * (X_BYTES + WEIGHT_BYTES);
  }
  __device__ __forceinline__ unsigned weights(int stage) const { return x(stage) + X_BYTES; }
  __device__ __forceinline__ unsigned table() const { return smem + TABLE_AT; }
  __device__ __forceinline__ unsigned table_there() const { return smem + RING_BARRIERS_AT; }
  __device__ __forceinline__ unsigned full(int stage) const {
    return table_there() + 8 * (1 + stage);
  }
  __device__ __forceinline__ unsigned left(int stage) const {
    return table_there() + 8 * (1 + RING + stage);
  }
  __device__ __forceinline__ void start_barriers() const {
    start_barrier(table_there(), 1);
    for (int stage = 0; stage < RING; ++stage) {
      start_barrier(full(stage), 1);
      start_barrier(left(stage), 4 * CONSUMERS);
    }
  }
};
__device__ __forceinline__ void load_bytes(
    unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// By one thread: what no kernel writes comes before the wait for predecessors.
struct Loader {
  Ring ring;
  Map x_map;
  const char* weights;
  int batch;
  __device__ __forceinline__ void load_weights(int step) const {
    const int stage = step % RING;
    expect_bytes(ring.full(stage), X_BYTES + WEIGHT_BYTES);
    load_bytes(ring.weights(stage), weights + step * WEIGHT_BYTES, WEIGHT_BYTES, ring.full(stage));
  }
  __device__ __forceinline__ void load_x(int step) const {
    const int stage = step % RING;
    load_box(ring.x(stage), x_map, step * STEP_LINE, 0, batch, 0, ring.full(stage));
  }
  __device__ __forceinline__ void before(const char* table) const {
    expect_bytes(ring.table_there(), TABLE_BYTES);
    load_bytes(ring.table(), table, TABLE_BYTES, ring.table_there());
    #pragma unroll
    for (int step = 0; step < RING; ++step) load_weights(step);
  }
  __device__ __forceinline__ void behind() const {
    #pragma unroll
    for (int step = 0; step < RING; ++step) load_x(step);
    #pragma unroll 1
    for (int step = RING; step < STEPS; ++step) {
      wait_for(ring.left(step % RING), step / RING % 2 ^ 1);
      load_weights(step);
      load_x(step);
    }
  }
};

// A consumer's rows of keys, values and queries, to where attention has them.
struct Projection {
  unsigned sums[WIDE / 8][4];

  __device__ __forceinline__ void multiply(const Ring& ring, int consumer, int lane) {
    #pragma unroll 1
    for (int step = 0; step < STEPS; ++step) {
      const int stage = step % RING;
      wait_for(ring.full(stage), step / RING % 2);
      const unsigned own = ring.x(stage) + consumer * 64 * STEP_LINE;
      const unsigned long long a = tile_descriptor<STEP_LINE>(own, 8 * STEP_LINE, 16);
      const unsigned long long b =
          tile_descriptor<STEP_LINE>(ring.weights(stage), 8 * STEP_LINE, 16);
      begin_products();
      #pragma unroll
      for (int part = 0; part < STEP_LINE / 32; ++part)
        multiply_x(&sums[0][0], a + 2 * part, b + 2 * part, step > 0 || part > 0);
      commit_products();
      if (step > 0) {
        wait_for_products<1>();
        leave(ring.left((step - 1) % RING), lane);
      }
    }
    wait_for_products<0>();
  }
  // One of the three, rounded: four neighbouring channels of a row are a word.
  template <int PART> __device__ __forceinline__ void round_to(
      unsigned tile, unsigned table, int first_row, int lane) const {
    float bounds[3];
    #pragma unroll
    for (int i = 0; i < 3; ++i)
      asm volatile("ld.shared.f32 %0, [%1];"
                   : "=f"(bounds[i]) : "r"(table + 8 * WIDE + 16 * PART + 4 * i) : "memory");
    #pragma unroll
    for (int group = 0; group < GROUPS; ++group) {
      const unsigned from = table + ((PART * GROUPS + group) * 4 + lane % 4) * 32;
      float scale[4];
      int bias[4];
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(scale[0]), "=f"(scale[1]), "=f"(scale[2]), "=f"(scale[3])
                   : "r"(from) : "memory");
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(bias[0]), "=r"(bias[1]), "=r"(bias[2]), "=r"(bias[3])
                   : "r"(from + 16) : "memory");
      #pragma unroll
      for (int half = 0; half < 2; ++half) {
        float four[4];
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int sum = (int)sums[2 * (PART * GROUPS + group) + e / 2][2 * half + e % 2];
          four[e] = __fmul_rn(__int2float_rn(sum + bias[e]), scale[e]);
        }
        const unsigned word = quantise<Q, 4>(four, bounds[0], bounds[1], bounds[2]).word[0];
        const int row = first_row + half * 8 + lane / 4;
        const unsigned at = swizzled<LINE>(row * LINE + group * 16 + lane % 4 * 4);
        asm volatile("st.shared.b32 [%0], %1;" :: "r"(tile + at), "r"(word) : "memory");
      }
    }
  }
};
// All rows of a batch and a head, by one consumer for 64 of them.
__device__ __forceinline__ void project(
    const Ring& ring, const Block& block, int consumer, int warp, int lane) {
  Projection own;
  own.multiply(ring, consumer, lane);
  const auto there = [&](unsigned barrier) {
    fence_shared();
    __syncwarp();
    leave(barrier, lane);
  };
  const int row = warp * 16;
  wait_for(ring.table_there(), 0);
  own.round_to<0>(block.keys(0), ring.table(), consumer * 64 + row, lane);
  there(block.barrier(KEYS_THERE, 0));
  own.round_to<1>(block.values(0), ring.table(), consumer * 64 + row, lane);
  there(block.barrier(VALUES_THERE, 0));
  own.round_to<2>(block.own(consumer), ring.table(), row, lane);
  there(block.of_queries());
}
"""

ENTRY = r"""
__device__ __forceinline__ void attend(
    Map x_map, Map y_map, const void* weights, const void* table, const float* scalars,
    const int* zero_points, const void* shared, int number, int thread) {
  const int warp = __shfl_sync(0xffffffffu, thread / 32, 0), lane = thread % 32;
  const Block block = Block(shared, number, 0);
  const Ring ring = {block.smem};
  const int head = block.pair % HEADS;
  const Loader loader = {ring, x_map, (const char*)weights + head * (STEPS * WEIGHT_BYTES),
                         block.pair / HEADS};
  const bool loads = warp == 4 * CONSUMERS && lane == 0;
  if (loads) {
    prefetch_map(x_map);
    ring.start_barriers();
    block.start_barriers(4 * CONSUMERS);
    loader.before((const char*)table + head * TABLE_BYTES);
  }
  __syncthreads();
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (warp >= 4 * CONSUMERS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(PRODUCER_REGISTERS));
    const int helper = warp - 4 * CONSUMERS;
    const int q_zero = read_now(zero_points), k_zero = read_now(zero_points + 1);
    if (loads) loader.behind();
    __syncwarp();
    prepare_step(block, 0, q_zero, k_zero, helper, lane);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(CONSUMER_REGISTERS));
  const int consumer = warp / 4, own_warp = warp % 4;
  project(ring, block, consumer, own_warp, lane);
  const auto attend_rows = [&](auto& state) {
    wait_for(block.of_queries(), 0);
    consume(state, block, nullptr, consumer, consumer * 64 + own_warp * 16, lane);
    store_own(state, block, y_map, consumer, own_warp, lane);
  };
  State<true> plain;
  plain.begin_rounding(scalars, zero_points);
  if (plain.is_plain()) return attend_rows(plain);
  State<false> state;
  state.begin_rounding(scalars, zero_points);
  attend_rows(state);
}
"""
"""Constants are those of `kernel.py`."""
