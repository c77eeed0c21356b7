"""CUDA source of attention of float32: copies, both products, and the rows of a block."""

COPIES = r"""
constexpr int ROW_TILES = 1, KEY_TILES = TILE_KEYS / 8, THREADS = WARPS * 32, ROWS = WARPS * 16;
constexpr int STEPS = WIDTH / 16, GROUPS = WIDTH / 32, TILES = (KEYS + TILE_KEYS - 1) / TILE_KEYS;
constexpr int STAGE = TILE_KEYS * (KEY_ROW + VALUE_ROW);

template <int LEFT> __device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// PIECE floats of a row, or zeros where they are not inside.
__device__ __forceinline__ void copy_piece(float* to, const float* from, bool inside) {
  const unsigned shared = (unsigned)__cvta_generic_to_shared(to), bytes = inside ? PIECE * 4 : 0;
  if constexpr (PIECE == 4)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :: "r"(shared), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2, %3;"
                 :: "r"(shared), "l"(from), "n"(PIECE * 4), "r"(bytes) : "memory");
}
// A tile of rows from row `first` on, ROW floats apart in shared memory; zeros beyond the last.
template <int ROW, int PITCH> __device__ __forceinline__ void copy_tile(
    float* to, const float* from, int first, int thread) {
  constexpr int PIECES = WIDTH / PIECE, COPIES = TILE_KEYS * PIECES;
  #pragma unroll 4
  for (int start = 0; start < COPIES; start += THREADS) {
    const int index = start + thread, row = index / PIECES, column = index % PIECES * PIECE;
    if (COPIES % THREADS == 0 || index < COPIES) {
      const bool inside = first + row < KEYS && column < DEPTH;
      copy_piece(to + row * ROW + column, from + (inside ? (first + row) * PITCH + column : 0),
                 inside);
    }
  }
}
// Four values of a row of queries, zeros beyond its end.
__device__ __forceinline__ float4 four_of(const float* row, int column, bool inside) {
  if constexpr (PIECE == 4)
    return inside && column < DEPTH ? __ldg(reinterpret_cast<const float4*>(row + column))
                                    : make_float4(0.f, 0.f, 0.f, 0.f);
  const auto one = [&](int i) {
    return inside && column + i < DEPTH ? __ldg(row + column + i) : 0.f;
  };
  return make_float4(one(0), one(1), one(2), one(3));
}
// Where a pair's matrix begins in an array of `rows` rows.
__device__ __forceinline__ int matrix_start(int pair, int rows, int pitch) {
  return pitch == DEPTH ? pair * rows * DEPTH
                        : pair / HEADS * rows * pitch + pair % HEADS * DEPTH;
}
"""

PRODUCTS = r"""
// The left factor of 16 values along the depth, in two halves: what a lane has of both is four
// neighbours of a row, which keys are read in as well.
using Sixteen = Parts[2][4];

struct Queries {
  const float *upper, *lower;  // rows lane / 4 and lane / 4 + 8 of the warp
  bool upper_inside, lower_inside;
  Sixteen held[HOLDS_QUERIES ? STEPS : 1];

  __device__ __forceinline__ void read(Sixteen& a, int step, int lane) const {
    const int column = step * 16 + lane % 4 * 4;
    const float4 one = four_of(upper, column, upper_inside);
    const float4 two = four_of(lower, column, lower_inside);
    a[0][0] = parts_of(one.x), a[0][1] = parts_of(two.x);
    a[0][2] = parts_of(one.y), a[0][3] = parts_of(two.y);
    a[1][0] = parts_of(one.z), a[1][1] = parts_of(two.z);
    a[1][2] = parts_of(one.w), a[1][3] = parts_of(two.w);
  }
  __device__ __forceinline__ void begin(const float* q, int first, int lane) {
    const int row = first + lane / 4;
    upper = q + row * Q_PITCH, lower = upper + 8 * Q_PITCH;
    upper_inside = row < QUERIES, lower_inside = row + 8 < QUERIES;
    if constexpr (HOLDS_QUERIES)
      #pragma unroll
      for (int step = 0; step < STEPS; ++step) read(held[step], step, lane);
  }
};

__device__ __forceinline__ void score(
    Scores& z, Queries& queries, const float* keys, int lane) {
  #pragma unroll
  for (int t = 0; t < KEY_TILES; ++t)
    #pragma unroll
    for (int e = 0; e < 4; ++e) z[0][t][e] = 0.f;
  const float* own = keys + lane / 4 * KEY_ROW + lane % 4 * 4;
  #pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    if constexpr (!HOLDS_QUERIES) queries.read(queries.held[0], step, lane);
    const Sixteen& a = queries.held[HOLDS_QUERIES ? step : 0];
    constexpr int TOGETHER = KEY_TILES % 4 == 0 ? 4 : KEY_TILES % 2 == 0 ? 2 : 1;
    #pragma unroll
    for (int t = 0; t < KEY_TILES; t += TOGETHER) {
      Parts b[TOGETHER][4];
      #pragma unroll
      for (int i = 0; i < TOGETHER; ++i) {
        const float* at = own + (t + i) * (8 * KEY_ROW) + step * 16;
        const float4 key = *reinterpret_cast<const float4*>(at);
        b[i][0] = parts_of(key.x), b[i][1] = parts_of(key.y);
        b[i][2] = parts_of(key.z), b[i][3] = parts_of(key.w);
      }
      multiply(z[0] + t, a[0], b, 0);
      multiply(z[0] + t, a[1], b, 2);
    }
  }
}

// Sums of shares times values: [4 * g + e] holds columns 32 * g + e + 8 * (lane % 4) and four more.
using Sums = float[WIDTH / 8][4];

// A lane's two neighbouring shares are summands lane % 4 and lane % 4 + 4, and so are two rows of
// values.
__device__ __forceinline__ void weigh(
    Sums& sums, const Scores& z, const float* values, int lane) {
  const float* own = values + lane % 4 * (2 * VALUE_ROW) + lane / 4 * 4;
  #pragma unroll
  for (int t = 0; t < KEY_TILES; ++t) {
    const float (&share)[4] = z[0][t];
    const Parts p[4] = {parts_of(share[0]), parts_of(share[2]), parts_of(share[1]),
                        parts_of(share[3])};
    #pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
      const float* at = own + t * (8 * VALUE_ROW) + g * 32;
      const float4 one = *reinterpret_cast<const float4*>(at);
      const float4 two = *reinterpret_cast<const float4*>(at + VALUE_ROW);
      const Parts b[4][2] = {
          {parts_of(one.x), parts_of(two.x)}, {parts_of(one.y), parts_of(two.y)},
          {parts_of(one.z), parts_of(two.z)}, {parts_of(one.w), parts_of(two.w)}};
      multiply(sums + 4 * g, p, b, 0);
    }
  }
}
"""

BLOCK = r"""
// Four values of a row of y; nothing beyond its end.
__device__ __forceinline__ void store_four(float* row, int column, const float (&v)[4]) {
  if constexpr (PIECE == 4) {
    if (column < DEPTH)
      *reinterpret_cast<float4*>(row + column) = make_float4(v[0], v[1], v[2], v[3]);
  } else {
    #pragma unroll
    for (int i = 0; i < 4; ++i)
      if (column + i < DEPTH) row[column + i] = v[i];
  }
}
__device__ __forceinline__ void store_rows(
    float* y, const Sums& sums, const RowPairs& total, int first, int lane) {
  #pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float inverse = 1.f / over_lanes_sum(total.of[0][half]);
    const int row = first + half * 8 + lane / 4;
    if (row >= QUERIES) continue;
    #pragma unroll
    for (int g = 0; g < GROUPS; ++g)
      #pragma unroll
      for (int e = 0; e < 2; ++e) {
        float four[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) four[i] = sums[4 * g + i][2 * half + e] * inverse;
        store_four(y + row * Y_PITCH, g * 32 + lane % 4 * 8 + e * 4, four);
      }
  }
}

__device__ __forceinline__ void attend(
    const float* q, const float* k, const float* v, PARAMETERS RESULTS,
    float* shared, int block, int thread) {
  const int pair = block / ROW_BLOCKS, of_block = block % ROW_BLOCKS * ROWS, lane = thread % 32;
  const int first = of_block + thread / 32 * 16;
  q += matrix_start(pair, QUERIES, Q_PITCH), y += matrix_start(pair, QUERIES, Y_PITCH);
  k += matrix_start(pair, KEYS, K_PITCH), v += matrix_start(pair, KEYS, V_PITCH);
  const float* added = MASK + (MASKED ? pair / HEADS * MASK_BATCH + pair % HEADS * MASK_HEAD : 0);
  const int tiles = CAUSAL ? (min(of_block + ROWS, QUERIES) - 1 + KEYS - QUERIES) / TILE_KEYS + 1
                           : TILES;
  const auto fetch = [&](int tile) {
    float* to = shared + tile % STAGES * STAGE;
    if (tile < tiles) {
      copy_tile<KEY_ROW, K_PITCH>(to, k, tile * TILE_KEYS, thread);
      copy_tile<VALUE_ROW, V_PITCH>(to + TILE_KEYS * KEY_ROW, v, tile * TILE_KEYS, thread);
    }
    commit_copies();
  };
  constexpr int AHEAD = STAGES > 1 ? STAGES - 1 : 1;
  #pragma unroll
  for (int tile = 0; tile < AHEAD; ++tile) fetch(tile);
  Queries queries;
  queries.begin(q, first, lane);
  Sums sums;
  RowPairs top, total;
  #pragma unroll
  for (int t = 0; t < WIDTH / 8; ++t)
    #pragma unroll
    for (int e = 0; e < 4; ++e) sums[t][e] = 0.f;
  top.of[0][0] = top.of[0][1] = -infinity();
  total.of[0][0] = total.of[0][1] = 0.f;
  const float scale = __ldg(scalars), factor = MASKED ? LOG2E : scale * LOG2E;
  #pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    wait_for_copies<AHEAD - 1>();
    __syncthreads();
    if constexpr (STAGES > 1) fetch(tile + AHEAD);
    const float* stage = shared + tile % STAGES * STAGE;
    const Corner corner = {first, tile * TILE_KEYS};
    Scores z;
    RowPairs rescale;
    score(z, queries, stage, lane);
    if constexpr (MASKED) add_mask(z, added, scale, corner, lane);
    hide(z, corner, lane);
    raise_online(z, top, total, rescale, factor);
    if (TILES > 1 && __any_sync(0xffffffffu, rescale.of[0][0] != 1.f || rescale.of[0][1] != 1.f))
      #pragma unroll
      for (int t = 0; t < WIDTH / 8; ++t)
        #pragma unroll
        for (int e = 0; e < 4; ++e) sums[t][e] *= rescale.of[0][e / 2];
    weigh(sums, z, stage + TILE_KEYS * KEY_ROW, lane);
  }
"""
"""The kernel's function, whose results are RESULTS, up to how these are stored."""

FLOATS, STORE = "float* y", "  store_rows(y, sums, total, first, lane);\n}\n"
"""Results as they are."""
