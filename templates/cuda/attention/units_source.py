"""CUDA source of numbers that attention of bytes rounds: whole floats, units, sums of bytes."""

UNITS = r"""
// Numbers of 22 bits that are added to it are rounded half to even.
constexpr float ROUNDS = 12582912.f;
// Sums of so few products are within 22 bits, whatever the zero points: they are added to the bits
// of ROUNDS, which makes floats of them without a conversion, of which there are 16 a clock.
constexpr int SUMS_FROM = DEPTH * 255 * 255 < 1 << 22 ? 0x4B400000 : 0;

// The last rounding of scores: `rint(x * by)` between two bounds of bytes, as its distance from the
// lower one in units of 0 to 1. A sum of more than 2^23 is a whole number, and what saturates it is
// the multiplication that makes the units. It rounds half to even where the bound that units begin
// at is even: they may `turn`, and be the distance from the upper one. Otherwise they begin one
// below, and scores are `cut`.
struct Units {
  float by, from, unit, start, span;
  bool cut, turned;

  __device__ __forceinline__ void begin(float factor, float lowest, float highest, bool may_turn) {
    turned = may_turn && (int)lowest & 1 && !((int)highest & 1);
    by = turned ? -factor : factor;
    const float low = turned ? -highest : lowest, high = turned ? -lowest : highest;
    cut = (int)low & 1;
    const float bottom = cut ? low - 1.f : low;
    span = fmaxf(high - bottom, 1.f);
    unit = __fmul_rn(__frcp_rn(span), 1.00000012f);  // so that the upper bound is 1
    from = 8388608.f - bottom;
    start = -8388608.f * unit;
  }
  __device__ __forceinline__ float saturated(float x, float offset) const {
    float y;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(x), "f"(unit), "f"(offset));
    return y;
  }
  __device__ __forceinline__ float of(float x) const {
    return saturated(__fmaf_rn(x, by, from), start);
  }
};
__device__ __forceinline__ int add_bytes(unsigned word, int sum, bool is_signed) {
  return is_signed ? __dp4a((int)word, 0x01010101, sum)
                   : (int)__dp4a(word, 0x01010101u, (unsigned)sum);
}
// The least of each half of two words, from sm_90 on.
__device__ __forceinline__ unsigned least_pair(unsigned a, unsigned b) {
  unsigned least;
  asm("min.u16x2 %0, %1, %2;" : "=r"(least) : "r"(a), "r"(b));
  return least;
}
// 16 bytes of shared memory.
__device__ __forceinline__ int add_16_bytes(unsigned from, int sum, bool is_signed) {
  uint4 all;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(all.x), "=r"(all.y), "=r"(all.z), "=r"(all.w) : "r"(from) : "memory");
  sum = add_bytes(all.x, sum, is_signed);
  sum = add_bytes(all.y, sum, is_signed);
  sum = add_bytes(all.z, sum, is_signed);
  return add_bytes(all.w, sum, is_signed);
}
// What the zero point of queries takes from all scores of a key.
__device__ __forceinline__ int taken_of(int key_sum, int q_zero, int k_zero) {
  return SUMS_FROM + q_zero * (key_sum - DEPTH * k_zero);
}
// A word of memory that no kernel writes, read here and not where it is first needed.
__device__ __forceinline__ int read_now(const void* from) {
  int word;
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(word) : "l"(from));
  return word;
}
__device__ __forceinline__ float approximate_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ int over_lanes_sum(int x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
"""
