"""CUDA source of a consumer of floats: FlashAttention-3's overlap of softmax and products."""

FLOATS = r"""
using Sums = float[OUT_TILES][4];
using Shares = unsigned[TILE_KEYS / 16][4];

// Start the products of a consumer's queries with a tile of keys.
__device__ __forceinline__ void start_scores(Scores& z, unsigned queries, unsigned keys) {
  const unsigned long long a = tile_descriptor<LINE>(queries, 8 * LINE, 16);
  const unsigned long long b = tile_descriptor<LINE>(keys, 8 * LINE, 16);
  begin_products();
  #pragma unroll
  for (int step = 0; step < DEPTH_STEPS; ++step) {
    const int part = step / PART_STEPS, byte = step % PART_STEPS * 32;
    multiply_keys(&z[0][0][0], a + ((part * QUERY_PART + byte) >> 4),
                   b + ((part * KEY_PART + byte) >> 4), step > 0);
  }
  commit_products();
}
// Start the products of shares with the values of their keys.
__device__ __forceinline__ void start_values(Sums& sums, const Shares& shares, unsigned values) {
  const unsigned long long b = tile_descriptor<LINE>(values, 8 * LINE, KEY_PART);
  begin_products();
  #pragma unroll
  for (int step = 0; step < TILE_KEYS / 16; ++step) {
    const unsigned (&a)[4] = shares[step];
    multiply_values(&sums[0][0], a[0], a[1], a[2], a[3], b + (step * 16 * LINE >> 4), 1);
  }
  commit_products();
}

struct State {
  Sums sums;
  RowPairs top, total, rescale;
  float scale, factor;

  __device__ __forceinline__ void begin(const float* scalars) {
    #pragma unroll
    for (int t = 0; t < OUT_TILES; ++t)
      #pragma unroll
      for (int e = 0; e < 4; ++e) sums[t][e] = 0.f;
    top.of[0][0] = top.of[0][1] = -infinity();
    total.of[0][0] = total.of[0][1] = 0.f;
    scale = __ldg(scalars);
    factor = MASKED ? LOG2E : scale * LOG2E;
  }
  // Scores of a tile become powers of two over the largest so far.
  __device__ __forceinline__ void raise(Scores& z, const float* mask, Corner corner, int lane) {
    if constexpr (MASKED) add_mask(z, mask, scale, corner, lane);
    hide(z, corner, lane);
    raise_lazily(z, top, total, rescale, factor);
  }
  // Sums so far are over the largest score so far; those of other tiles seldom exceed it.
  __device__ __forceinline__ void catch_up() {
    if (__any_sync(0xffffffffu, rescale.of[0][0] != 1.f || rescale.of[0][1] != 1.f))
      #pragma unroll
      for (int t = 0; t < OUT_TILES; ++t)
        #pragma unroll
        for (int e = 0; e < 4; ++e) sums[t][e] *= rescale.of[0][e / 2];
  }
  __device__ __forceinline__ void share(Shares& shares, const Scores& z) const {
    #pragma unroll
    for (int step = 0; step < TILE_KEYS / 16; ++step)
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const auto& tile = z[0][2 * step + i / 2];
        shares[step][i] = rounded(tile[i % 2 * 2], tile[i % 2 * 2 + 1]);
      }
  }
  // Each pair of a lane's columns of y as it is stored, at its column and row of the warp.
  template <class Store> __device__ __forceinline__ void finish(Store store, int lane) {
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Of a row without a key no power is above 0, but for those of arithmetic.
      const bool seen = CUBICS == 0 || top.of[0][half] != -infinity();
      const float sum = over_lanes_sum(total.of[0][half]);
      const float inverse = 1.f / (seen ? sum : 0.f);
      #pragma unroll
      for (int t = 0; t < OUT_TILES; ++t) {
        const float pair[2] = {sums[t][2 * half] * inverse, sums[t][2 * half + 1] * inverse};
        store(pair, half * 8 + lane / 4, t * 8 + lane % 4 * 2);
      }
    }
  }
  __device__ __forceinline__ unsigned word_of(const float (&pair)[2]) const {
    return rounded(pair[0], pair[1]);
  }
};
"""
