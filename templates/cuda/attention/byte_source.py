"""CUDA source of attention of bytes: products of tensor cores, between which it rounds.

A share is rounded when its row's sum is known: with several tiles of keys, scores are computed
twice, first for the sums.
"""

BYTES = r"""
using Sums = int[ROW_TILES][OUT_TILES][4];
constexpr bool Q_SIGNED = SIGNED<Q>, K_SIGNED = SIGNED<K>;

// What the zero point of queries takes from scores of a tile of keys, by all threads of a block.
__device__ __forceinline__ void add_keys(
    unsigned keys, char* shared, int tile, int q_zero, int k_zero, int thread) {
  int* sums = reinterpret_cast<int*>(shared + SUMS_AT) + tile * TILE_KEYS;
  #pragma unroll
  for (int start = 0; start < TILE_KEYS; start += THREADS) {
    const int key = start + thread;
    if (TILE_KEYS % THREADS == 0 || key < TILE_KEYS) {
      int sum = 0;
      #pragma unroll
      for (int byte = 0; byte < DEPTH_STEPS * 32; byte += 16)
        sum = add_16_bytes(keys + key * PITCH + byte, sum, K_SIGNED);
      sums[key] = taken_of(sum, q_zero, k_zero);
    }
  }
}

template <bool PLAIN> struct State : RoundingOf<PLAIN> {
  using Base = RoundingOf<PLAIN>;
  using Base::top, Base::total, Base::factor, Base::near;
  // Whether powers follow scores of 8 keys at a time, so that one kind of unit works beside others.
  static constexpr bool RAISES_AT_ONCE = PLAIN && TILES == 1 && !CAUSAL;
  Sums sums;
  unsigned from, queries[HOLDS_QUERIES ? DEPTH_STEPS : 1][ROW_TILES][4];
  int from_row[ROW_TILES][2];

  __device__ __forceinline__ void begin(unsigned rows, int lane) {
    from = rows;
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r) {
      #pragma unroll
      for (int t = 0; t < OUT_TILES; ++t)
        #pragma unroll
        for (int e = 0; e < 4; ++e) sums[r][t][e] = 0;
      #pragma unroll
      for (int half = 0; half < 2; ++half) from_row[r][half] = 0;
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
            SUMS_FROM - this->k_zero * over_lanes_sum(from_row[r][half]);
    }
  }

  __device__ __forceinline__ void score_tile(
      Scores& z, unsigned keys, const int* of_keys, const float* mask, Corner corner, int lane) {
    #pragma unroll
    for (int pair = 0; pair < (SEEN_TILES + 1) / 2; ++pair) {
      if (pair % 4 == 0) __syncwarp();  // or registers fill with keys of all pairs
      int products[ROW_TILES][2][4];
      #pragma unroll
      for (int step = 0; step < DEPTH_STEPS; ++step) {
        unsigned b[4];
        read_keys(b, keys, pair, step, lane);
        #pragma unroll
        for (int r = 0; r < ROW_TILES; ++r) {
          auto& a = queries[HOLDS_QUERIES ? step : 0][r];
          if constexpr (!HOLDS_QUERIES) read_queries(a, from, r, step, lane);
          #pragma unroll
          for (int t = 0; t < 2; ++t)
            if (step == 0) start_bytes(products[r][t], a, b[2 * t], b[2 * t + 1], from_row[r]);
            else multiply_keys(products[r][t], a, b[2 * t], b[2 * t + 1]);
        }
      }
      #pragma unroll
      for (int t = 0; t < 2; ++t) {
        const int key = (2 * pair + t) * 8 + lane % 4 * 2;
        const int2 taken = *reinterpret_cast<const int2*>(of_keys + corner.key + key);
        #pragma unroll
        for (int r = 0; r < ROW_TILES; ++r)
          #pragma unroll
          for (int e = 0; e < 4; e += 2) {
            float2 added = make_float2(0.f, 0.f);
            if constexpr (MASKED)
              added = masks_at(mask, place_in(corner, r, 2 * pair + t, e, lane));
            float* to = &z[r][2 * pair + t][e];
            to[0] = this->score(products[r][t][e], taken.x, added.x);
            to[1] = this->score(products[r][t][e + 1], taken.y, added.y);
          }
        if constexpr (RAISES_AT_ONCE) {
          hide_eight(z, 2 * pair + t, corner, lane, this->hidden());
          this->raise_plain(z, 2 * pair + t, pair == 0 && t == 0);
        }
      }
    }
    #pragma unroll
    for (int t = (SEEN_TILES + 1) / 2 * 2; t < KEY_TILES; ++t)
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r)
        #pragma unroll
        for (int e = 0; e < 4; ++e) z[r][t][e] = 0.f;
  }

  // Where a lane keeps 16 scores of a tile of rows and four tiles of keys.
  __device__ __forceinline__ uint4* kept(char* shared, int key, int r, int four, int lane) const {
    const int warp = threadIdx.x / 32 * (ROW_TILES * TILES) + key / TILE_KEYS * ROW_TILES + r;
    return reinterpret_cast<uint4*>(shared + KEPT_AT) + (warp * (KEY_TILES / 4) + four) * 32 + lane;
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
            bits[e] = __float_as_uint(__fadd_rn(z[r][4 * four + t][e], ROUNDS - this->least()));
          words[t] = __byte_perm(__byte_perm(bits[0], bits[1], 0x0040),
                                 __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
        }
        *kept(shared, key, r, four, lane) = make_uint4(words[0], words[1], words[2], words[3]);
      }
  }
  __device__ __forceinline__ void look_back(Scores& z, char* shared, int key, int lane) const {
    // What a byte as the last one of a float is more than.
    const float zero = 8388608.f - this->least();
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
    else score_tile(z, keys, reinterpret_cast<const int*>(shared + SUMS_AT), mask, corner, lane);
    if (KEEPS_SCORES && measures) keep(z, shared, corner.key, lane);
    if constexpr (!RAISES_AT_ONCE) {
      this->cut_scores(z);
      hide(z, corner, lane, this->hidden());
    }
    if constexpr (RAISES_AT_ONCE) {
    } else if constexpr (PLAIN) {
      this->raise_plain(z, corner.key == 0 && (measures || TILES == 1));
    } else if constexpr (TILES == 1) {
      RowPairs rescale;
      raise_online(z, top, total, rescale, factor, near);
    } else if (measures) {
      measure_rows(z, top, total, factor, near);
    } else {
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r)
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
          float again = 0.f;
          raise_row(z, r, half, settled_base(z, r, half, top.of[r][half]), factor, again);
        }
    }
    if constexpr (TILES == 1) this->measured();
    if (TILES == 1 || !measures) this->cut_powers(z);
  }
  __device__ __forceinline__ void weigh(const Scores& z, unsigned values, int lane) {
    #pragma unroll
    for (int step = 0; step < TILE_KEYS / 32; ++step) {
      unsigned shares[ROW_TILES][4];
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r) this->share(shares[r], z, r, step);
      weigh_values(sums, shares, values, step, lane);
    }
  }
  // What all threads of a block find out of a tile of keys, before they meet.
  __device__ __forceinline__ void prepare(
      unsigned keys, char* shared, int tile, int thread) const {
    add_keys(keys, shared, tile, this->q_zero, this->k_zero, thread);
  }
  __device__ __forceinline__ void meet() const { __syncthreads(); }
  template <class Store> __device__ __forceinline__ void finish(Store store, int lane) {
    this->read_outputs();
    this->finish_rows(sums, store, lane);
  }
};
"""
