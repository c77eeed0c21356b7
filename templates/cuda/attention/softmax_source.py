"""CUDA source of attention's scores and their softmax, of rows that four lanes hold together."""

SOFTMAX = r"""
using Scores = float[ROW_TILES][KEY_TILES][4];
constexpr float LOG2E = 1.4426950408889634f, LARGE = 1e38f;
// Whether scores are whole numbers between bounds that `Units` holds between 0 and 1.
constexpr bool WHOLE = UNITS && (MASKED ? QUANTISED_MASKED : QUANTISED_SCORES);

// Two values of each tile of 16 rows: of rows lane / 4, and of rows lane / 4 + 8.
struct RowPairs { float of[ROW_TILES][2]; };

__device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000u); }
__device__ __forceinline__ float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}
// The same by arithmetic, to 1e-4 and at least 2^-127: a whole power becomes the exponent, and a
// polynomial is left.
__device__ __forceinline__ float cubic_power(float exponent) {
  const float cut = fmaxf(exponent, -126.f), whole = cut + 12582912.f;
  const float left = cut - (whole - 12582912.f);
  float power = __fmaf_rn(left, 0.05517167f, 0.24261113f);
  power = __fmaf_rn(power, left, 0.69326099f);
  power = __fmaf_rn(power, left, 0.99992807f);
  return __uint_as_float(__float_as_uint(power) + (__float_as_uint(whole) << 23));
}
// What is subtracted of scores whose largest is `top`: 0 where a lane has seen none as yet.
__device__ __forceinline__ float base_of(float top) { return top == -infinity() ? 0.f : top; }

// A warp's rows of scores: its first row, and the first key of the tile.
struct Corner { int row, key; };

__device__ __forceinline__ Corner place_in(Corner corner, int r, int t, int e, int lane) {
  return {corner.row + r * 16 + e / 2 * 8 + lane / 4, corner.key + t * 8 + lane % 4 * 2 + e % 2};
}
// -infinity, or another number, for those of 8 keys that a query does not see.
__device__ __forceinline__ void hide_eight(
    Scores& z, int t, Corner corner, int lane, float hidden) {
  if (TILES == 1 && !CAUSAL && t * 8 + 8 <= KEYS) return;
  #pragma unroll
  for (int r = 0; r < ROW_TILES; ++r)
    #pragma unroll
    for (int e = 0; e < 4; ++e) {
      const Corner at = place_in(corner, r, t, e, lane);
      const bool seen = at.key < KEYS && (!CAUSAL || at.key <= at.row + KEYS - QUERIES);
      z[r][t][e] = seen ? z[r][t][e] : hidden;
    }
}
// The same for a tile's keys.
__device__ __forceinline__ void hide(
    Scores& z, Corner corner, int lane, float hidden = -infinity()) {
  if constexpr (!CAUSAL && KEYS % TILE_KEYS == 0) return;
  const int last = CAUSAL ? corner.row + KEYS - QUERIES : KEYS - 1;
  if (corner.key + TILE_KEYS - 1 <= last && (!CAUSAL || corner.key + TILE_KEYS <= KEYS)) return;
  #pragma unroll
  for (int t = 0; t < KEY_TILES; ++t) hide_eight(z, t, corner, lane, hidden);
}
// The mask's values for a score and the next one, 0 beyond the array.
__device__ __forceinline__ float2 masks_at(const float* mask, Corner at) {
  const float* from = mask + (MASK_ROW ? min(at.row, QUERIES - 1) : 0) * MASK_ROW + at.key;
  if constexpr (KEYS % 2 == 0) {
    return at.key < KEYS ? __ldg(reinterpret_cast<const float2*>(from)) : make_float2(0.f, 0.f);
  } else {
    return make_float2(at.key < KEYS ? __ldg(from) : 0.f,
                       at.key + 1 < KEYS ? __ldg(from + 1) : 0.f);
  }
}

// What is subtracted of a row's scores whose largest is `top`. Where a mask makes all of them next
// to the least of floats, their multiples overflow though differences do not: they are moved first.
__device__ __forceinline__ float settled_base(Scores& z, int r, int half, float top) {
  const float base = base_of(top);
  if constexpr (MASKED && !QUANTISED_MASKED)
    if (__any_sync(0xffffffffu, fabsf(base) > LARGE)) {
      #pragma unroll
      for (int t = 0; t < KEY_TILES; ++t)
        #pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) z[r][t][e] -= base;
      return 0.f;
    }
  return base;
}
// Scores are scaled and added to the mask.
__device__ __forceinline__ void add_mask(
    Scores& z, const float* mask, float scale, Corner corner, int lane) {
  #pragma unroll
  for (int r = 0; r < ROW_TILES; ++r)
    #pragma unroll
    for (int t = 0; t < KEY_TILES; ++t)
      #pragma unroll
      for (int e = 0; e < 4; e += 2) {
        if (t % 4 == 0 && e == 0) __syncwarp();  // or registers fill with all of the mask
        const float2 added = masks_at(mask, place_in(corner, r, t, e, lane));
        z[r][t][e] = __fmaf_rn(z[r][t][e], scale, added.x);
        z[r][t][e + 1] = __fmaf_rn(z[r][t][e + 1], scale, added.y);
      }
}

// The largest of each row's scores so far, those of this lane.
__device__ __forceinline__ float largest(const Scores& z, int r, int half, float top) {
  #pragma unroll
  for (int t = 0; t < KEY_TILES; ++t)
    top = fmaxf(top, fmaxf(z[r][t][2 * half], z[r][t][2 * half + 1]));
  return top;
}
__device__ __forceinline__ float over_lanes_most(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float over_lanes_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
// The score of each row's first key, which every query sees.
__device__ __forceinline__ float first_of(const Scores& z, int r, int half) {
  return __shfl_sync(0xffffffffu, z[r][0][2 * half], 0, 4);
}
// What `top` is when a tile has been seen. Powers of scores that are `near` one another fit floats
// over any score of the row: it stays that of the first key, and no other is looked at.
__device__ __forceinline__ float top_with(
    const Scores& z, int r, int half, float top, bool near) {
  if (WHOLE && near) return top == -infinity() ? first_of(z, r, half) : top;
  return largest(z, r, half, top);
}
// Differences of whole scores are exact, so that equal ones have the power 1.
__device__ __forceinline__ float exponent_of(float z, float base, float factor) {
  if constexpr (WHOLE) return __fmul_rn(__fsub_rn(z, base), factor);
  return __fmaf_rn(z, factor, -base * factor);
}
// Scores become powers, which are added to `total` unless products add them up.
__device__ __forceinline__ void raise_row(
    Scores& z, int r, int half, float base, float factor, float& total) {
  #pragma unroll
  for (int t = 0; t < KEY_TILES; ++t)
    #pragma unroll
    for (int e = 2 * half; e < 2 * half + 2; ++e) {
      const float exponent = exponent_of(z[r][t][e], base, factor);
      // One of every 16 / CUBICS.
      const bool cubic = (2 * t + e % 2) % 16 * CUBICS % 16 < CUBICS;
      z[r][t][e] = cubic ? cubic_power(exponent) : power_of_two(exponent);
      if constexpr (!SUMS_OF_PRODUCTS) total += z[r][t][e];
    }
}
// Scores of a tile become powers of two over the largest so far. `total` is each lane's own sum;
// `rescale` is what sums and products so far are multiplied with.
__device__ __forceinline__ void raise_online(
    Scores& z, RowPairs& top, RowPairs& total, RowPairs& rescale, float factor,
    bool near = false) {
  #pragma unroll
  for (int r = 0; r < ROW_TILES; ++r)
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      float now = top_with(z, r, half, top.of[r][half], near);
      if (!(WHOLE && near)) now = over_lanes_most(now);
      if constexpr (WHOLE) asm volatile("" : "+f"(now));  // or what follows is compiled twice
      rescale.of[r][half] = power_of_two((top.of[r][half] - base_of(now)) * factor);
      total.of[r][half] *= rescale.of[r][half];
      top.of[r][half] = now;
      raise_row(z, r, half, settled_base(z, r, half, now), factor, total.of[r][half]);
    }
}
// The same, where powers may exceed 1: sums of 2^8 times as much are as exact, so that rows whose
// largest score grows by less stay as they are (FlashAttention-4).
__device__ __forceinline__ void raise_lazily(
    Scores& z, RowPairs& top, RowPairs& total, RowPairs& rescale, float factor) {
  #pragma unroll
  for (int r = 0; r < ROW_TILES; ++r)
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& own = top.of[r][half];
      const float most = over_lanes_most(largest(z, r, half, own));
      const bool stays = (most - own) * factor <= 8.f;
      const float now = stays ? own : most;
      rescale.of[r][half] = stays ? 1.f : power_of_two((own - base_of(now)) * factor);
      total.of[r][half] *= rescale.of[r][half];
      own = now;
      raise_row(z, r, half, settled_base(z, r, half, now), factor, total.of[r][half]);
    }
}
// The largest score of each row and the sum of its powers, as this lane sees them.
__device__ __forceinline__ void measure_rows(
    Scores& z, RowPairs& top, RowPairs& total, float factor,
    bool near = false) {
  #pragma unroll
  for (int r = 0; r < ROW_TILES; ++r)
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float now = top_with(z, r, half, top.of[r][half], near);
      float sum = total.of[r][half] * power_of_two((top.of[r][half] - base_of(now)) * factor);
      const float base = settled_base(z, r, half, now);
      #pragma unroll
      for (int t = 0; t < KEY_TILES; ++t)
        #pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e)
          sum += power_of_two(exponent_of(z[r][t][e], base, factor));
      top.of[r][half] = now;
      total.of[r][half] = sum;
    }
}
// What the four lanes of a row have measured, joined.
__device__ __forceinline__ void join_lanes(RowPairs& top, RowPairs& total, float factor) {
  #pragma unroll
  for (int r = 0; r < ROW_TILES; ++r)
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float now = over_lanes_most(top.of[r][half]);
      const float moved = power_of_two((top.of[r][half] - base_of(now)) * factor);
      total.of[r][half] = over_lanes_sum(total.of[r][half] * moved);
      top.of[r][half] = now;
    }
}
"""
