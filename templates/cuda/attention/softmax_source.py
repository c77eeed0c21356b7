"""CUDA source of attention's scores and their softmax, of rows that four lanes hold together."""

SOFTMAX = r"""
using Scores = float[ROW_TILES][KEY_TILES][4];
constexpr float LOG2E = 1.4426950408889634f;

// Two values of each tile of 16 rows: of rows lane / 4, and of rows lane / 4 + 8.
struct RowPairs { float of[ROW_TILES][2]; };

__device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000u); }
__device__ __forceinline__ float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}
// What is subtracted of scores whose largest is `top`: 0 where a lane has seen none as yet.
__device__ __forceinline__ float base_of(float top) { return top == -infinity() ? 0.f : top; }

// A warp's rows of scores: its first row, and the first key of the tile.
struct Corner { int row, key; };

__device__ __forceinline__ Corner place_in(Corner corner, int r, int t, int e, int lane) {
  return {corner.row + r * 16 + e / 2 * 8 + lane / 4, corner.key + t * 8 + lane % 4 * 2 + e % 2};
}
// -infinity for keys that a query does not see.
__device__ __forceinline__ void hide(Scores& z, Corner corner, int lane) {
  if constexpr (!CAUSAL && KEYS % TILE_KEYS == 0) return;
  const int last = CAUSAL ? corner.row + KEYS - QUERIES : KEYS - 1;
  if (corner.key + TILE_KEYS - 1 <= last && (!CAUSAL || corner.key + TILE_KEYS <= KEYS)) return;
  #pragma unroll
  for (int r = 0; r < ROW_TILES; ++r)
    #pragma unroll
    for (int t = 0; t < KEY_TILES; ++t)
      #pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Corner at = place_in(corner, r, t, e, lane);
        const bool seen = at.key < KEYS && (!CAUSAL || at.key <= at.row + KEYS - QUERIES);
        z[r][t][e] = seen ? z[r][t][e] : -infinity();
      }
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
// Scores become powers, which are added to `total` unless products add them up.
__device__ __forceinline__ void raise_row(
    Scores& z, int r, int half, float base, float factor, float& total) {
  const float offset = -base * factor;
  #pragma unroll
  for (int t = 0; t < KEY_TILES; ++t)
    #pragma unroll
    for (int e = 2 * half; e < 2 * half + 2; ++e) {
      z[r][t][e] = power_of_two(__fmaf_rn(z[r][t][e], factor, offset));
      if constexpr (!SUMS_OF_PRODUCTS) total += z[r][t][e];
    }
}
// Scores of a tile become powers of two over the largest so far. `total` is each lane's own sum;
// `rescale` is what sums and products so far are multiplied with.
__device__ __forceinline__ void raise_online(
    Scores& z, RowPairs& top, RowPairs& total, RowPairs& rescale, float factor) {
  #pragma unroll
  for (int r = 0; r < ROW_TILES; ++r)
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float now = over_lanes_most(largest(z, r, half, top.of[r][half]));
      const float base = base_of(now);
      rescale.of[r][half] = power_of_two((top.of[r][half] - base) * factor);
      total.of[r][half] *= rescale.of[r][half];
      top.of[r][half] = now;
      raise_row(z, r, half, base, factor, total.of[r][half]);
    }
}
// The largest score of each row and the sum of its powers, as this lane sees them.
__device__ __forceinline__ void measure_rows(
    const Scores& z, RowPairs& top, RowPairs& total, float factor) {
  #pragma unroll
  for (int r = 0; r < ROW_TILES; ++r)
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float now = largest(z, r, half, top.of[r][half]), base = base_of(now);
      float sum = total.of[r][half] * power_of_two((top.of[r][half] - base) * factor);
      #pragma unroll
      for (int t = 0; t < KEY_TILES; ++t)
        #pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e)
          sum += power_of_two(__fmaf_rn(z[r][t][e], factor, -base * factor));
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
