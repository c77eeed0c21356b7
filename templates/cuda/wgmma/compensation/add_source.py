"""CUDA source of the epilogue that adds what lists gather to a tile, scales it and stores it."""

ADD = r"""
__device__ __forceinline__ float read_scale(const float* at) {
  float scale;
  asm volatile("ld.global.f32 %0, [%1];"
               : "=f"(scale) : "l"(__cvta_generic_to_global(at)) : "memory");
  return scale;
}
__device__ __forceinline__ void read_turned(unsigned (&to)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ uint4 read_values(unsigned from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
  return v;
}
__device__ __forceinline__ void multiply(
    int (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// Of 16 neighbours of each of four entries that a lane reads, one and the one behind it.
struct Words { unsigned even[2], odd[2]; };
__device__ __forceinline__ Words words_of(const unsigned (&w)[4]) {
  return {{__byte_perm(w[0], w[1], 0x6420), __byte_perm(w[2], w[3], 0x6420)},
          {__byte_perm(w[0], w[1], 0x7531), __byte_perm(w[2], w[3], 0x7531)}};
}
__device__ __forceinline__ void add_rows(int (&q)[4][2][4], unsigned base, int own, int lane) {
  const uint4 a = read_values(base + A_VALUES_AT + own * VALUES + lane * 16);
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    unsigned turned[4];
    read_turned(turned, base + own * OF_A + lane * 64 + (c ^ lane / 2 % 4) * 16);
    const Words b = words_of(turned);
    multiply(q[c][0], a.x, a.y, a.z, a.w, b.even[0], b.even[1]);
    multiply(q[c][1], a.x, a.y, a.z, a.w, b.odd[0], b.odd[1]);
  }
}
__device__ __forceinline__ void add_columns(
    int (&q)[2][4], unsigned base, int band, int own, int lane) {
  unsigned turned[4];
  read_turned(turned, base + B_AT + band * OF_B + lane * BLOCK_M + (own ^ lane % 8) * 16);
  const uint4 b = read_values(base + B_VALUES_AT + band * VALUES + lane * 16);
  const Words a = words_of(turned);
  multiply(q[0], a.even[0], a.odd[0], a.even[1], a.odd[1], b.x, b.y);
  multiply(q[1], a.even[0], a.odd[0], a.even[1], a.odd[1], b.z, b.w);
}
// One thread of a warp leaves a stage, also that of the other block of a cluster.
__device__ __forceinline__ void leave(const Ring& ring, int stage, int rank) {
  const unsigned empty = ring.full + 8 * (STAGES + stage);
  arrive(empty);
  if constexpr (RECEIVERS > 1)
    asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1; "
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }"
                 : : "r"(empty), "r"(rank ^ 1) : "memory");
}
__device__ __forceinline__ void read_four(const float* from, int column, float (&to)[4]) {
  #pragma unroll
  for (int c = 0; c < 4; ++c) to[c] = column + c < N ? read_scale(from + column + c) : 0.f;
}
__device__ __forceinline__ void write_four(
    float* y, const unsigned* p, const int (&q)[2][4], int half, float row_scale,
    const float (&scale)[4], const float (&bias)[4], int column) {
  float value[4];
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    const float unit = 1.f / (2 * MOST);
    const int whole = (int)p[c / 2 * 4 + half * 2 + c % 2], added = q[c % 2][2 * half + c / 2];
    const float all = __fadd_rn((float)whole, __fmul_rn((float)added, unit));
    value[c] = __fmul_rn(__fmul_rn(all, scale[c]), row_scale);
    if constexpr (BIAS) value[c] = __fadd_rn(value[c], bias[c]);
  }
  if constexpr (N % 4 == 0) {
    if (column < N)
      __stcs(reinterpret_cast<float4*>(y + column),
             make_float4(value[0], value[1], value[2], value[3]));
  } else {
    #pragma unroll
    for (int c = 0; c < 4; ++c)
      if (column + c < N) y[column + c] = value[c];
  }
}
// A consumer warpgroup adds the lists to its rows of a tile and stores them. Returns the stages.
__device__ __forceinline__ int compensate(
    const unsigned* acc, const void* stages, const void* barriers, const float* row_scales,
    const float* column_scales, const float* biases, const int* bands_of_a, const int* bands_of_b,
    float* y, int m_tile, int n_tile, int rank, int stage, int phase) {
  int thread;  // read anew for each tile, which costs no register while it is multiplied
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  const int own = thread / 32 - 4, lane = thread % 32;
  const Ring ring = {shared_address(stages), shared_address(barriers), stage, phase};
  const Heads heads = read_heads(bands_of_a, bands_of_b, m_tile, n_tile, lane);
  const int row = m_tile * BLOCK_M + own * BAND + lane / 4, count = at_lane(heads.count, own);
  const float row_scale[2] = {row < M ? read_scale(row_scales + row) : 0.f,
                              row + 8 < M ? read_scale(row_scales + row + 8) : 0.f};
  int number = 0;
  #pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    int q[4][2][4] = {}, of_band[4];
    #pragma unroll
    for (int c = 0; c < 4; ++c) of_band[c] = at_lane(heads.count, 16 + 4 * g + c);
    #pragma unroll 1
    for (int step = 0; step < heads.steps[g]; ++step, ++number) {
      const int at = stage_of(ring, number);
      const unsigned base = ring.stages + at * STAGE_BYTES;
      wait_for(ring.full + 8 * at, phase_of(ring, number));
      if (step < count) add_rows(q, base, own, lane);
      #pragma unroll
      for (int c = 0; c < 4; ++c)
        if (step < of_band[c]) add_columns(q[c], base, c, own, lane);
      __syncwarp();
      if (lane == 0) leave(ring, at, rank);
    }
    #pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int column = n_tile * BLOCK_N + g * 64 + c * 16 + lane % 4 * 4;
      float scale[4], bias[4] = {};
      read_four(column_scales, column, scale);
      if constexpr (BIAS) read_four(biases, column, bias);
      #pragma unroll
      for (int h = 0; h < 2; ++h)
        if (row + 8 * h < M)
          write_four(y + (size_t)(row + 8 * h) * N, acc + (g * 4 + c) * 8, q[c], h, row_scale[h],
                     scale, bias, column);
    }
  }
  return number;
}
"""
"""compensate(...), for a namespace with `STAGES` and the constants MOST, the largest integer, and
BIAS."""
