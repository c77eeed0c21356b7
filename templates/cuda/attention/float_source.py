"""CUDA source of attention of 16-bit floats: an online softmax, as in FlashAttention-2."""

ROUNDED = r"""
// Two floats rounded to the type of q, k and v, the first in the lower half.
__device__ __forceinline__ unsigned rounded(float low, float high) {
  unsigned word;
  if constexpr (IS_HALF<IN>)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
"""
"""`rounded(low, high)`: a word of two."""

FLOATS = (
    ROUNDED
    + r"""
using Sums = float[ROW_TILES][OUT_TILES][4];

__device__ __forceinline__ bool changes(const RowPairs& rescale) {
  bool found = false;
  #pragma unroll
  for (int r = 0; r < ROW_TILES; ++r)
    found = found || rescale.of[r][0] != 1.f || rescale.of[r][1] != 1.f;
  return found;
}

struct Queries {
  unsigned from;
  unsigned held[HOLDS_QUERIES ? DEPTH_STEPS : 1][ROW_TILES][4];
  __device__ __forceinline__ void hold(int lane) {
    if constexpr (HOLDS_QUERIES)
      #pragma unroll
      for (int step = 0; step < DEPTH_STEPS; ++step)
        #pragma unroll
        for (int r = 0; r < ROW_TILES; ++r) read_queries(held[step][r], from, r, step, lane);
  }
};

// Products of queries and keys; with a mask, scaled and added to it.
__device__ __forceinline__ void score(
    Scores& z, Queries& queries, unsigned keys, const float* mask, float scale, Corner corner,
    int lane) {
  #pragma unroll
  for (int r = 0; r < ROW_TILES; ++r)
    #pragma unroll
    for (int t = 0; t < KEY_TILES; ++t)
      #pragma unroll
      for (int e = 0; e < 4; ++e) z[r][t][e] = 0.f;
  #pragma unroll
  for (int step = 0; step < DEPTH_STEPS; ++step) {
    if constexpr (!HOLDS_QUERIES)
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r)
        read_queries(queries.held[0][r], queries.from, r, step, lane);
    #pragma unroll
    for (int pair = 0; pair < KEY_TILES / 2; ++pair) {
      unsigned b[4];
      read_keys(b, keys, pair, step, lane);
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r) {
        const auto& a = queries.held[HOLDS_QUERIES ? step : 0][r];
        multiply_keys(z[r][2 * pair], a, b[0], b[1]);
        multiply_keys(z[r][2 * pair + 1], a, b[2], b[3]);
      }
    }
  }
  if constexpr (MASKED) add_mask(z, mask, scale, corner, lane);
  hide(z, corner, lane);
}

// Ones of the type of q, k and v, two to a word.
constexpr unsigned ONES = IS_HALF<IN> ? 0x3C003C00u : 0x3F803F80u;

struct State {
  Sums sums;
  float shares_sum[ROW_TILES][4];  // equal columns of a product with ones
  RowPairs top, total;
  Queries queries;
  float scale, factor;
  __device__ __forceinline__ void begin(const float* scalars, unsigned rows, int lane) {
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r) {
      #pragma unroll
      for (int t = 0; t < OUT_TILES; ++t)
        #pragma unroll
        for (int e = 0; e < 4; ++e) sums[r][t][e] = 0.f;
      #pragma unroll
      for (int e = 0; e < 4; ++e) shares_sum[r][e] = 0.f;
      top.of[r][0] = top.of[r][1] = -infinity();
      total.of[r][0] = total.of[r][1] = 0.f;
    }
    queries.from = rows;
    queries.hold(lane);
    scale = __ldg(scalars);
    factor = MASKED ? LOG2E : scale * LOG2E;
  }
  // Scores of a tile, as powers of two over the largest so far.
  __device__ __forceinline__ void look_at(
      Scores& z, unsigned keys, const float* mask, Corner corner, bool, char*, int lane) {
    RowPairs rescale;
    score(z, queries, keys, mask, scale, corner, lane);
    raise_online(z, top, total, rescale, factor);
    // Largest scores seldom change after the first tiles.
    if (TILES > 1 && __any_sync(0xffffffffu, changes(rescale)))
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r)
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
          if constexpr (SUMS_OF_PRODUCTS) shares_sum[r][e] *= rescale.of[r][e / 2];
          #pragma unroll
          for (int t = 0; t < OUT_TILES; ++t) sums[r][t][e] *= rescale.of[r][e / 2];
        }
  }
  __device__ __forceinline__ void measured() {}  // an online softmax measures nothing beforehand
  __device__ __forceinline__ void weigh(const Scores& z, unsigned values, int lane) {
    #pragma unroll
    for (int step = 0; step < TILE_KEYS / 16; ++step) {
      unsigned shares[ROW_TILES][4];
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          const auto& tile = z[r][2 * step + i / 2];
          shares[r][i] = rounded(tile[i % 2 * 2], tile[i % 2 * 2 + 1]);
        }
      weigh_values(sums, shares, values, step, lane);
      if constexpr (SUMS_OF_PRODUCTS)
        #pragma unroll
        for (int r = 0; r < ROW_TILES; ++r)
          multiply_values(shares_sum[r], shares[r], ONES, ONES);
    }
  }
  // Each pair of a lane's columns of y as it is stored, at its column and row of the warp.
  __device__ __forceinline__ void prepare(unsigned, char*, int, int) const {}
  __device__ __forceinline__ void meet() const {}
  template <class Store> __device__ __forceinline__ void finish(Store store, int lane) {
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
      #pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float inverse = 1.f / (SUMS_OF_PRODUCTS ? shares_sum[r][2 * half]
                                                      : over_lanes_sum(total.of[r][half]));
        #pragma unroll
        for (int t = 0; t < OUT_TILES; ++t) {
          const float* two = &sums[r][t][2 * half];
          const float pair[2] = {two[0] * inverse, two[1] * inverse};
          store(pair, r * 16 + half * 8 + lane / 4, t * 8 + lane % 4 * 2);
        }
      }
  }
  __device__ __forceinline__ unsigned word_of(const float (&pair)[2]) const {
    return rounded(pair[0], pair[1]);
  }
};
"""
)
