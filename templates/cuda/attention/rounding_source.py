"""CUDA source of what attention of bytes rounds as a quantised model does: scores, shares, y."""

from autoq.templates.cuda.attention.clamping_source import CLAMPING
from autoq.templates.cuda.attention.fixed_source import FIXED
from autoq.templates.cuda.attention.units_source import UNITS

ROUNDING = (
    UNITS
    + FIXED
    + CLAMPING
    + r"""
// Of the 8 keys that an accumulator has, those whose tiles have any of the sequence.
constexpr int SEEN_TILES = TILES == 1 ? (KEYS + 7) / 8 : KEY_TILES;
// The bounds are whole numbers, so that they may cut what is rounded already.
__device__ __forceinline__ float rint_between(float x, float factor, float low, float high) {
  const float rounded = __fmaf_rn(x, factor, ROUNDS);
  return __fsub_rn(fminf(fmaxf(rounded, ROUNDS + low), ROUNDS + high), ROUNDS);
}

// Products of bytes over all keys, and what zero points take, are whole floats: their difference by
// an addition of floats is exact, and issues every cycle.
constexpr bool FLOATS_HOLD_SUMS = KEYS * 255 * 256 < 1 << 24;

// What rounding needs of the rows of a warp, wherever their products come from. Of PLAIN ones is
// known what `is_plain` says, so that no branch stands between their instructions.
template <bool PLAIN> struct RoundingOf {
  RowPairs top, total, inverse;
  Units units;
  float factor, masked_inverse;
  bool near, cuts_shares;
  int q_zero, k_zero, v_zero, shares_sum[ROW_TILES][2];
  const float* scalars;
  const int* zero_points;
  OfScores by;
  OfShares of_shares;
  OfOutputs out;

  __device__ __forceinline__ void begin_rounding(const float* floats, const int* integers) {
    scalars = floats;
    zero_points = integers;
    q_zero = read_now(zero_points);
    k_zero = read_now(zero_points + 1);
    by = read_part<OfScores>(scalars);
    masked_inverse = __frcp_rn(by.masked_step);
    factor = LOG2E;
    if (QUANTISED_MASKED) factor *= by.masked_step;
    else if (!MASKED) factor *= QUANTISED_SCORES ? by.scores_step : by.scale;
    near = false;
    if constexpr (WHOLE) begin_units();
    begin_rows();
  }
  __device__ __forceinline__ void begin_rows() {
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
      #pragma unroll
      for (int half = 0; half < 2; ++half) {
        top.of[r][half] = -infinity();
        total.of[r][half] = 0.f;
        shares_sum[r][half] = 0;
      }
  }

  // Of multiples of up to PLAIN_NEAR exponents lie between -126 and 0.
  static constexpr float BASE = -66.f, PLAIN_NEAR = 60.f;
  // Powers of up to 2^NEAR and their sums are far from the end of floats.
  __device__ __forceinline__ void begin_units() {
    constexpr float NEAR = 80.f, STEEPEST = 1e30f;
    if (QUANTISED_MASKED) units.begin(1.f, by.masked_low, by.masked_high, PLAIN);
    else if (RESCALED_SCORES) units.begin(by.rescale, by.rescaled_low, by.rescaled_high, PLAIN);
    else units.begin(by.scale, by.scores_low, by.scores_high, PLAIN);
    factor = fminf(factor * units.span, STEEPEST);  // not infinite, which 0 cannot be multiplied by
    near = factor <= (PLAIN && OFFSETS ? PLAIN_NEAR : NEAR);
    if (units.turned) factor = -factor;
  }
  // Of a PLAIN one: powers are over the score of a row's first key, scores need no cut, and shares
  // that are cut as halves of a word are of 16 bits.
  __device__ __forceinline__ bool is_plain() {
    if constexpr (!LEAST_PAIRS) return WHOLE && near && !units.cut;
    read_shares();
    return WHOLE && near && !units.cut && of_shares.shares_step * 65000.f > 1.f;
  }
  // What a key has for a score that a query does not see.
  __device__ __forceinline__ float hidden() const {
    return PLAIN && units.turned ? infinity() : -infinity();
  }
  __device__ __forceinline__ void cut_scores(Scores& z) const {
    if (!WHOLE || PLAIN || !units.cut) return;
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
      #pragma unroll
      for (int t = 0; t < KEY_TILES; ++t)
        #pragma unroll
        for (int e = 0; e < 4; ++e) z[r][t][e] = fmaxf(z[r][t][e], units.unit);
  }

  // A quotient by its reciprocal, corrected by what is left: rounded as a division is.
  __device__ __forceinline__ float over_masked_step(float s) const {
    const float near = __fmul_rn(s, masked_inverse);
    const float exact = __fmaf_rn(__fmaf_rn(-near, by.masked_step, s), masked_inverse, near);
    return exact == exact ? exact : near;
  }

  // A sum of products less what is taken from it, to both of which SUMS_FROM was added, as a
  // multiple of what `factor` says.
  __device__ __forceinline__ float score(int sum, int taken, float added) const {
    float s = SUMS_FROM ? __int_as_float(sum) - __int_as_float(taken)
                        : __int2float_rn(sum - taken);
    constexpr bool LAST = WHOLE && !MASKED;  // the last rounding is one of scores, or of these
    if constexpr (QUANTISED_SCORES && (RESCALED_SCORES || !LAST)) {
      s = rint_between(s, by.scale, by.scores_low, by.scores_high);
      if constexpr (RESCALED_SCORES && !LAST)
        s = rint_between(s, by.rescale, by.rescaled_low, by.rescaled_high);
      if constexpr (MASKED) s = __fmul_rn(s, by.scores_step);
    }
    if constexpr (!QUANTISED_SCORES && MASKED) s = __fmul_rn(s, by.scale);
    if constexpr (MASKED) s = __fadd_rn(s, added);
    if constexpr (QUANTISED_MASKED) s = over_masked_step(s);
    if constexpr (WHOLE) return units.of(s);
    return QUANTISED_MASKED ? rint_between(s, 1.f, by.masked_low, by.masked_high) : s;
  }
  __device__ __forceinline__ float score(int sum, float added) const {
    return score(sum, SUMS_FROM, added);
  }
  __device__ __forceinline__ float least() const {
    return QUANTISED_MASKED ? by.masked_low : RESCALED_SCORES ? by.rescaled_low : by.scores_low;
  }

  // What powers are multiplied with to be shares in their steps, when all keys have been seen. In a
  // row of equal scores all shares are this number, rounded as a model rounds it: beside a tie, as
  // 25.499998 for ten keys, another last bit would move all of them by a step.
  __device__ __forceinline__ void measured() {
    read_shares();
    if constexpr (PLAIN) {
      #pragma unroll
      for (int r = 0; r < ROW_TILES; ++r)
        #pragma unroll
        for (int half = 0; half < 2; ++half)
          inverse.of[r][half] = over_step(over_lanes_sum(total.of[r][half]));
      return;
    }
    v_zero = __ldg(zero_points + 2);
    join_lanes(top, total, factor);
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
      #pragma unroll
      for (int half = 0; half < 2; ++half)
        inverse.of[r][half] = __fdiv_rn(__frcp_rn(total.of[r][half]), of_shares.shares_step);
  }
  __device__ __forceinline__ void read_shares() {
    of_shares = read_part<OfShares>(scalars + sizeof(OfScores) / 4);
    // A share is at most 1, and seldom more steps than its type has.
    cuts_shares = !((of_shares.shares_most + 0.5f) * of_shares.shares_step > 1.00001f);
  }
  // The same quotient of the reciprocal, of sums from 2^-80 to 2^100: rounded twice, as divisions
  // are that look for the ends of floats first.
  __device__ __forceinline__ float over_step(float sum) const {
    const float step = of_shares.shares_step, near_one = approximate_reciprocal(sum);
    const float one = __fmaf_rn(near_one, -__fmaf_rn(sum, near_one, -1.f), near_one);
    const float near_step = approximate_reciprocal(step);
    const float of_step = __fmaf_rn(near_step, __fmaf_rn(-step, near_step, 1.f), near_step);
    const float quotient = __fmul_rn(of_step, one);
    return __fmaf_rn(of_step, __fmaf_rn(-step, quotient, one), quotient);
  }
  // What is added to multiples of a row's scores, so that exponents take one instruction. Of the
  // score `first` it makes BASE exactly: its multiple, rounded to 2^-17, is taken from BASE, around
  // which floats are as far apart, so that its multiple and this are rounded to BASE. All powers of
  // a row of equal scores are then the same power of two, whose sums are exact.
  __device__ __forceinline__ float offset_of(float first) const {
    const float far = factor > 0.f ? 64.f : 127.f;  // floats from 64 to 128 are 2^-17 apart
    return BASE - __fsub_rn(__fmaf_rn(first, factor, far), far);
  }
  // Scores of a tile become powers over the score of the row's first key.
  __device__ __forceinline__ void raise_plain(Scores& z, bool first) {
    #pragma unroll
    for (int t = 0; t < KEY_TILES; ++t) raise_plain(z, t, first && t == 0);
  }
  // The same of 8 keys.
  __device__ __forceinline__ void raise_plain(Scores& z, int t, bool first) {
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r) {
      #pragma unroll
      for (int half = 0; half < 2; ++half)
        if (first) {
          top.of[r][half] = first_of(z, r, half);
          if constexpr (OFFSETS) top.of[r][half] = offset_of(top.of[r][half]);
        }
      #pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (t < SEEN_TILES) {
          const float own = top.of[r][e / 2];
          z[r][t][e] = power_of_two(OFFSETS ? __fmaf_rn(z[r][t][e], factor, own)
                                            : exponent_of(z[r][t][e], own, factor));
          total.of[r][e / 2] += z[r][t][e];
        } else {
          z[r][t][e] = 0.f;
        }
      }
    }
  }
  // Powers are cut where their shares exceed the most of their type.
  __device__ __forceinline__ void cut_powers(Scores& z) const {
    if (PLAIN || !cuts_shares) return;
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r)
      #pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float most = __fdividef(of_shares.shares_most, inverse.of[r][half]);
        #pragma unroll
        for (int t = 0; t < KEY_TILES; ++t)
          #pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) z[r][t][e] = fminf(z[r][t][e], most);
      }
  }
  // A step of 32 keys as A's registers. Keys follow each other as a thread holds their scores: it
  // has four of eight neighbouring ones.
  __device__ __forceinline__ void share(
      unsigned (&shares)[4], const Scores& z, int r, int step) {
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      unsigned bits[4];
      #pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float power = z[r][4 * step + i / 2 * 2 + e / 2][i % 2 * 2 + e % 2];
        const float rounded = __fmaf_rn(power, inverse.of[r][i % 2], ROUNDS);
        const bool cuts = PLAIN ? !LEAST_PAIRS : !UNITS;  // or halves of a word, or powers
        bits[e] = __float_as_uint(cuts ? fminf(rounded, ROUNDS + of_shares.shares_most) : rounded);
      }
      if constexpr (PLAIN && LEAST_PAIRS) {
        const unsigned most = (unsigned)of_shares.shares_most * 0x10001u;
        shares[i] = __byte_perm(least_pair(__byte_perm(bits[0], bits[1], 0x5410), most),
                                least_pair(__byte_perm(bits[2], bits[3], 0x5410), most), 0x6420);
      } else {
        const unsigned low = __byte_perm(bits[0], bits[1], 0x0040);
        shares[i] = __byte_perm(low, __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
      }
      int& sum = shares_sum[r][i % 2];
      if (PLAIN || v_zero != 0) sum = add_bytes(shares[i], sum, false);
    }
  }
  // What y needs, which is on its way while the last products are computed.
  __device__ __forceinline__ void read_outputs() {
    const float* from = scalars + (sizeof(OfScores) + sizeof(OfShares)) / 4;
    out.out_scale = __int_as_float(read_now(from));
    if constexpr (!OUT_FLOATS) {
      out.low = __int_as_float(read_now(from + 1));
      out.high = __int_as_float(read_now(from + 2));
      out.zero_point = __int_as_float(read_now(from + 3));
    }
    v_zero = read_now(zero_points + 2);
  }
  // Whether y's bounds are those of its type, which conversions clamp to.
  __device__ __forceinline__ bool clamps_to_type() const {
    return BITS<OUT> == 8 && out.low + out.zero_point == LEAST<OUT> &&
           out.high + out.zero_point == LEAST<OUT> + 255.f;
  }
  template <class Sums, class Store> __device__ __forceinline__ void finish_rows(
      const Sums& sums, Store store, int lane) {
    if constexpr (PLAIN && !OUT_FLOATS)
      if (clamps_to_type()) {
        const OfType by(out.zero_point, out.out_scale);
        const auto pack = [&](const float (&four)[4], int row, int column) {
          store(OfType::Four{by.word(four)}, row, column);
        };
        return finish_each(sums, pack, by.scale, lane);
      }
    finish_each(sums, store, out.out_scale, lane);
  }
  // Four neighbouring columns of y at a time.
  template <class Sums, class Store> __device__ __forceinline__ void finish_each(
      const Sums& sums, Store store, float scale, int lane) {
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
            const int sum = (int)sums[r][2 * pair + e % 2][2 * half + e / 2];
            const float all = FLOATS_HOLD_SUMS ? __fsub_rn(__int2float_rn(sum), (float)taken)
                                               : __int2float_rn(sum - taken);
            four[e] = __fmul_rn(all, scale);
          }
          store(four, r * 16 + half * 8 + lane / 4, pair * 16 + lane % 4 * 4);
        }
      }
  }
  __device__ __forceinline__ unsigned word_of(OfType::Four four) const { return four.word; }
  __device__ __forceinline__ unsigned word_of(const float (&four)[4]) const {
    if constexpr (OUT_FLOATS) return 0;
    else return quantise<OUT, 4>(four, out.low, out.high, out.zero_point).word[0];
  }
};
"""
)
"""OUT, SIGNED and `quantise` are those of `NumberNamespace`."""
