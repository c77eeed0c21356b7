"""CUDA source of a consumer of bytes, which rounds where a quantised model does.

A share is rounded when its row's sum is known. Until then powers wait in registers, or
scores are computed twice, first for the sums.
"""

BYTES = r"""
using Sums = unsigned[1][OUT_TILES][4];
using Products = unsigned[KEY_TILES][4];
using Shares = unsigned[TILE_KEYS / 32][4];

template <bool PLAIN> struct State : RoundingOf<PLAIN> {
  using Base = RoundingOf<PLAIN>;
  using Base::top, Base::total, Base::inverse, Base::factor, Base::near, Base::k_zero;
  Sums sums;
  int from_row[2];

  // When all keys have been seen: until then no register is needed for what shares weigh.
  __device__ __forceinline__ void settle() {
    this->measured();
    #pragma unroll
    for (int t = 0; t < OUT_TILES; ++t)
      #pragma unroll
      for (int e = 0; e < 4; ++e) asm volatile("mov.b32 %0, 0;" : "=r"(sums[0][t][e]));
  }
  // What products of rows begin with: the part of zero points that is the same for all keys.
  __device__ __forceinline__ void look_at_queries(unsigned queries, int warp, int lane) {
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      int sum = 0;
      const int row = warp * 16 + half * 8 + lane / 4;
      if (k_zero != 0)
        #pragma unroll
        for (int part = 0; part < PARTS; ++part)
          #pragma unroll
          for (int byte = 0; byte < LINE; byte += 64)
            if (byte + lane % 4 * 16 < LINE)  // in whatever order
              sum = add_16_bytes(queries + part * QUERY_PART + row * LINE + byte + lane % 4 * 16,
                                 sum, SIGNED<Q>);
      from_row[half] = SUMS_FROM - k_zero * over_lanes_sum(sum);
    }
  }
  // Products begin with what zero points of keys take from them.
  __device__ __forceinline__ void start_scores(
      Products& z, unsigned queries, unsigned keys) const {
    const unsigned long long a = tile_descriptor<LINE>(queries, 8 * LINE, 16);
    const unsigned long long b = tile_descriptor<LINE>(keys, 8 * LINE, 16);
    #pragma unroll
    for (int t = 0; t < KEY_TILES; ++t)
      #pragma unroll
      for (int e = 0; e < 4; ++e) z[t][e] = from_row[e / 2];
    begin_products();
    #pragma unroll
    for (int step = 0; step < DEPTH_STEPS; ++step) {
      const int part = step / PART_STEPS, byte = step % PART_STEPS * 32;
      multiply_keys(&z[0][0], a + ((part * QUERY_PART + byte) >> 4),
                    b + ((part * KEY_PART + byte) >> 4), 1);
    }
    commit_products();
  }
  __device__ __forceinline__ void start_values(const Shares& shares, unsigned turned) {
    const unsigned long long b = tile_descriptor<LINE_TURNED>(turned, 8 * LINE_TURNED, 16);
    begin_products();
    #pragma unroll
    for (int step = 0; step < TILE_KEYS / 32; ++step) {
      const unsigned (&a)[4] = shares[step];
      multiply_values(&sums[0][0][0], a[0], a[1], a[2], a[3], b + (step * STEP_TURNED >> 4), 1);
    }
    commit_products();
  }
  // Zero points of queries take from them what helpers have found out of keys.
  __device__ __forceinline__ void score_all(
      Scores& z, const Products& products, const float* mask, Corner corner, unsigned of_keys,
      int lane) const {
    #pragma unroll
    for (int t = 0; t < KEY_TILES; ++t) {
      int taken[2];
      asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(taken[0]), "=r"(taken[1])
                   : "r"(of_keys + 4 * (t * 8 + lane % 4 * 2)) : "memory");
      #pragma unroll
      for (int e = 0; e < 4; e += 2) {
        float2 added = make_float2(0.f, 0.f);
        if constexpr (MASKED) added = masks_at(mask, place_in(corner, 0, t, e, lane));
        z[0][t][e] = this->score((int)products[t][e], taken[0], added.x);
        z[0][t][e + 1] = this->score((int)products[t][e + 1], taken[1], added.y);
      }
    }
    this->cut_scores(z);
  }
  // Scores become powers, which are added up, over the largest score so far, or over any.
  __device__ __forceinline__ void raise(Scores& z, bool first) {
    if constexpr (PLAIN) return this->raise_plain(z, first);
    RowPairs rescale;
    raise_online(z, top, total, rescale, factor, near);
  }
  // The same without what becomes of them: their sums alone.
  __device__ __forceinline__ void measure(Scores& z, bool first) {
    if constexpr (PLAIN) this->raise_plain(z, first);
    else measure_rows(z, top, total, factor, near);
  }
  // Powers over the row's largest score, whose sum is known.
  __device__ __forceinline__ void raise_measured(Scores& z) {
    if constexpr (PLAIN) return this->raise_plain(z, false);
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      float again = 0.f;
      raise_row(z, 0, half, settled_base(z, 0, half, top.of[0][half]), factor, again);
    }
  }
  template <class Store> __device__ __forceinline__ void finish(Store store, int lane) {
    this->finish_rows(sums, store, lane);
  }
};

"""
