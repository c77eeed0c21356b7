"""CUDA source of attention of bytes, which rounds where a quantised model does.

A share is rounded when its row's sum is known: with several tiles of keys, scores are computed
twice, first for the sums.
"""

BYTES = r"""
using Sums = int[ROW_TILES][OUT_TILES][4];
// Numbers of 22 bits that are added to it are rounded half to even.
constexpr float ROUNDS = 12582912.f;
// Sums of so few products are within 22 bits, whatever the zero points: they are added to the bits
// of ROUNDS, which makes floats of them without a conversion, of which there are 16 a clock.
constexpr int SUMS_FROM = DEPTH * 255 * 255 < 1 << 22 ? 0x4B400000 : 0;
constexpr bool Q_SIGNED = SIGNED<Q>, K_SIGNED = SIGNED<K>;

struct Scalars {
  float scale, scores_low, scores_high, rescale, rescaled_low, rescaled_high, scores_step;
  float masked_low, masked_high, masked_step;
  float shares_most, shares_step, out_scale, low, high, zero_point;
};

// The bounds are whole numbers, so that they may cut what is rounded already.
__device__ __forceinline__ float rint_between(float x, float factor, float low, float high) {
  const float rounded = __fmaf_rn(x, factor, ROUNDS);
  return __fsub_rn(fminf(fmaxf(rounded, ROUNDS + low), ROUNDS + high), ROUNDS);
}
__device__ __forceinline__ int add_bytes(unsigned word, int sum, bool is_signed) {
  return is_signed ? __dp4a((int)word, 0x01010101, sum)
                   : (int)__dp4a(word, 0x01010101u, (unsigned)sum);
}
__device__ __forceinline__ int over_lanes_sum(int x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

struct State {
  Sums sums;
  RowPairs top, total, inverse;
  unsigned from, queries[HOLDS_QUERIES ? DEPTH_STEPS : 1][ROW_TILES][4];
  int q_zero, v_zero;
  int from_row[ROW_TILES][2], shares_sum[ROW_TILES][2];
  float factor, masked_inverse;
  Scalars by;

  __device__ __forceinline__ void begin(
      const float* scalars, const int* zero_points, unsigned rows, int lane) {
    float* all = &by.scale;
    #pragma unroll
    for (int i = 0; i < sizeof(Scalars) / 4; ++i) all[i] = __ldg(scalars + i);
    masked_inverse = __frcp_rn(by.masked_step);
    q_zero = __ldg(zero_points);
    v_zero = __ldg(zero_points + 2);
    const int k_zero = __ldg(zero_points + 1);
    from = rows;
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r) {
      #pragma unroll
      for (int t = 0; t < OUT_TILES; ++t)
        #pragma unroll
        for (int e = 0; e < 4; ++e) sums[r][t][e] = 0;
      #pragma unroll
      for (int half = 0; half < 2; ++half) {
        top.of[r][half] = -infinity();
        total.of[r][half] = 0.f;
        shares_sum[r][half] = from_row[r][half] = 0;
      }
      #pragma unroll
      for (int step = 0; step < DEPTH_STEPS; ++step) {
        auto& a = queries[HOLDS_QUERIES ? step : 0][r];
        read_queries(a, rows, r, step, lane);
        #pragma unroll
        for (int i = 0; i < 4; ++i)
          from_row[r][i % 2] = add_bytes(a[i], from_row[r][i % 2], Q_SIGNED);
      }
      #pragma unroll
      for (int half = 0; half < 2; ++half)
        from_row[r][half] =
            SUMS_FROM + k_zero * (DEPTH * q_zero - over_lanes_sum(from_row[r][half]));
    }
    factor = LOG2E;
    if (QUANTISED_MASKED) factor *= by.masked_step;
    else if (!MASKED) factor *= QUANTISED_SCORES ? by.scores_step : by.scale;
  }

  // A quotient by its reciprocal, corrected by what is left: rounded as a division is.
  __device__ __forceinline__ float over_masked_step(float s) const {
    const float near = __fmul_rn(s, masked_inverse);
    const float exact = __fmaf_rn(__fmaf_rn(-near, by.masked_step, s), masked_inverse, near);
    return exact == exact ? exact : near;
  }

  // A sum of products, to which SUMS_FROM was added, as a multiple of what `factor` says.
  __device__ __forceinline__ float score(int sum, float added) const {
    float s = SUMS_FROM ? __uint_as_float(sum) - ROUNDS : __int2float_rn(sum);
    if constexpr (!QUANTISED_SCORES && !MASKED) return s;
    if constexpr (!QUANTISED_SCORES) s = __fmul_rn(s, by.scale);
    if constexpr (QUANTISED_SCORES) {
      s = rint_between(s, by.scale, by.scores_low, by.scores_high);
      if constexpr (RESCALED_SCORES)
        s = rint_between(s, by.rescale, by.rescaled_low, by.rescaled_high);
      if constexpr (MASKED) s = __fmul_rn(s, by.scores_step);
    }
    if constexpr (MASKED) s = __fadd_rn(s, added);
    if constexpr (QUANTISED_MASKED)
      s = rint_between(over_masked_step(s), 1.f, by.masked_low, by.masked_high);
    return s;
  }

  template <bool Q_ZERO> __device__ __forceinline__ void score_tile(
      Scores& z, unsigned keys, const float* mask, Corner corner, int lane) {
    const unsigned every = (q_zero & 0xff) * 0x01010101u;
    const unsigned zeros[4] = {every, every, every, every};
    #pragma unroll
    for (int pair = 0; pair < KEY_TILES / 2; ++pair) {
      if (pair % 4 == 0) __syncwarp();  // or registers fill with keys of all pairs
      int products[ROW_TILES][2][4], of_keys[2][4];
      #pragma unroll
      for (int t = 0; t < 2; ++t)
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
          of_keys[t][e] = 0;
          #pragma unroll
          for (int r = 0; r < ROW_TILES; ++r) products[r][t][e] = from_row[r][e / 2];
        }
      #pragma unroll
      for (int step = 0; step < DEPTH_STEPS; ++step) {
        unsigned b[4];
        read_keys(b, keys, pair, step, lane);
        #pragma unroll
        for (int r = 0; r < ROW_TILES; ++r) {
          auto& a = queries[HOLDS_QUERIES ? step : 0][r];
          if constexpr (!HOLDS_QUERIES) read_queries(a, from, r, step, lane);
          multiply_keys(products[r][0], a, b[0], b[1]);
          multiply_keys(products[r][1], a, b[2], b[3]);
        }
        if constexpr (Q_ZERO) {
          multiply_keys(of_keys[0], zeros, b[0], b[1]);
          multiply_keys(of_keys[1], zeros, b[2], b[3]);
        }
      }
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r)
        #pragma unroll
        for (int t = 0; t < 2; ++t)
          #pragma unroll
          for (int e = 0; e < 4; e += 2) {
            float2 added = make_float2(0.f, 0.f);
            if constexpr (MASKED)
              added = masks_at(mask, place_in(corner, r, 2 * pair + t, e, lane));
            float* to = &z[r][2 * pair + t][e];
            to[0] = score(products[r][t][e] - (Q_ZERO ? of_keys[t][0] : 0), added.x);
            to[1] = score(products[r][t][e + 1] - (Q_ZERO ? of_keys[t][1] : 0), added.y);
          }
    }
  }

  // Where a lane keeps 16 scores of a tile of rows and four tiles of keys.
  __device__ __forceinline__ uint4* kept(char* shared, int key, int r, int four, int lane) const {
    const int warp = threadIdx.x / 32 * (ROW_TILES * TILES) + key / TILE_KEYS * ROW_TILES + r;
    return reinterpret_cast<uint4*>(shared + KEPT_AT) + (warp * (KEY_TILES / 4) + four) * 32 + lane;
  }
  __device__ __forceinline__ float least() const {
    return QUANTISED_MASKED ? by.masked_low : RESCALED_SCORES ? by.rescaled_low : by.scores_low;
  }
  __device__ __forceinline__ void keep(const Scores& z, char* shared, int key, int lane) const {
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
      #pragma unroll
      for (int four = 0; four < KEY_TILES / 4; ++four) {
        unsigned words[4];
        #pragma unroll
        for (int t = 0; t < 4; ++t) {
          unsigned bits[4];
          #pragma unroll
          for (int e = 0; e < 4; ++e)
            bits[e] = __float_as_uint(__fadd_rn(z[r][4 * four + t][e], ROUNDS - least()));
          words[t] = __byte_perm(__byte_perm(bits[0], bits[1], 0x0040),
                                 __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
        }
        *kept(shared, key, r, four, lane) = make_uint4(words[0], words[1], words[2], words[3]);
      }
  }
  __device__ __forceinline__ void look_back(Scores& z, char* shared, int key, int lane) const {
    const float zero = 8388608.f - least();  // what a byte as the last one of a float is more than
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
      #pragma unroll
      for (int four = 0; four < KEY_TILES / 4; ++four) {
        const uint4 all = *kept(shared, key, r, four, lane);
        const unsigned words[4] = {all.x, all.y, all.z, all.w};
        #pragma unroll
        for (int t = 0; t < 4; ++t)
          #pragma unroll
          for (int e = 0; e < 4; ++e)
            z[r][4 * four + t][e] = __fsub_rn(
                __uint_as_float(__byte_perm(words[t], 0x4B000000u, 0x7440u + e)), zero);
      }
  }

  // Scores of a tile: measured first, then as powers over the largest of the row.
  __device__ __forceinline__ void look_at(
      Scores& z, unsigned keys, const float* mask, Corner corner, bool measures, char* shared,
      int lane) {
    if (KEEPS_SCORES && !measures) look_back(z, shared, corner.key, lane);
    else if (q_zero != 0) score_tile<true>(z, keys, mask, corner, lane);
    else score_tile<false>(z, keys, mask, corner, lane);
    if (KEEPS_SCORES && measures) keep(z, shared, corner.key, lane);
    hide(z, corner, lane);
    if constexpr (TILES == 1) {
      RowPairs rescale;
      raise_online(z, top, total, rescale, factor);
      measured();
    } else if (measures) {
      measure_rows(z, top, total, factor);
    } else {
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r)
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
          float again = 0.f;
          raise_row(z, r, half, settled_base(z, r, half, top.of[r][half]), factor, again);
        }
    }
  }
  // What powers are multiplied with to be shares in their steps, when all keys have been seen.
  __device__ __forceinline__ void measured() {
    join_lanes(top, total, factor);
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
      #pragma unroll
      for (int half = 0; half < 2; ++half)
        inverse.of[r][half] = __frcp_rn(__fmul_rn(total.of[r][half], by.shares_step));
  }

  __device__ __forceinline__ void weigh(const Scores& z, unsigned values, int lane) {
    #pragma unroll
    for (int step = 0; step < TILE_KEYS / 32; ++step) {
      unsigned shares[ROW_TILES][4];
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r)
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          unsigned bits[4];
          #pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float power = z[r][4 * step + i / 2 * 2 + e / 2][i % 2 * 2 + e % 2];
            bits[e] = __float_as_uint(
                fminf(__fmaf_rn(power, inverse.of[r][i % 2], ROUNDS), ROUNDS + by.shares_most));
          }
          const unsigned low = __byte_perm(bits[0], bits[1], 0x0040);
          shares[r][i] = __byte_perm(low, __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
          int& sum = shares_sum[r][i % 2];
          if (v_zero != 0) sum = add_bytes(shares[r][i], sum, false);
        }
      weigh_values(sums, shares, values, step, lane);
    }
  }

  // Four neighbouring columns of y at a time.
  template <class Store> __device__ __forceinline__ void finish(Store store, int lane) {
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
      #pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int taken = v_zero * over_lanes_sum(shares_sum[r][half]);
        #pragma unroll
        for (int pair = 0; pair < OUT_TILES / 2; ++pair) {
          float four[4];
          #pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int sum = sums[r][2 * pair + e % 2][2 * half + e / 2] - taken;
            four[e] = __fmul_rn(__int2float_rn(sum), by.out_scale);
          }
          store(four, r * 16 + half * 8 + lane / 4, pair * 16 + lane % 4 * 4);
        }
      }
  }
  __device__ __forceinline__ unsigned word_of(const float (&four)[4]) const {
    if constexpr (OUT_FLOATS) return 0;
    else return quantise<OUT, 4>(four, by.low, by.high, by.zero_point).word[0];
  }
};
"""
