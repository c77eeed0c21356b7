"""CUDA source of bytes of y that are clamped to their type, as attention of bytes rounds them."""

CLAMPING = r"""
template <class T> constexpr float LEAST = SIGNED<T> ? -128.f : 0.f;

// Bytes of y that are clamped to their type. A value times 2^-149 plus an integer's denormal, in
// one fused multiply-add, has the bits of the rounded integer, which saturation keeps from falling
// below 0 and the pack from rising above 255. Ties are to even, so that what is added must be even:
// where it is odd, 255 minus the byte is made of the value's opposite.
struct OfType {
  struct Four { unsigned word; };
  float scale, zero;
  unsigned turned;

  __device__ __forceinline__ OfType(float zero_point, float of_sums) {
    const int above = (int)(zero_point - LEAST<OUT>), odd = above & 1;
    scale = odd ? -of_sums : of_sums;
    zero = __int_as_float(odd ? 255 - above : above);
    turned = (SIGNED<OUT> ? 0x80808080u : 0u) ^ (odd ? 0xffffffffu : 0u);
  }
  __device__ __forceinline__ unsigned word(const float (&four)[4]) const {
    int all[4];
    #pragma unroll
    for (int e = 0; e < 4; ++e)
      all[e] = __float_as_int(__saturatef(__fmaf_rn(four[e], __int_as_float(1), zero)));
    unsigned high, word;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;"
        : "=r"(high) : "r"(all[3]), "r"(all[2]), "r"(0));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;"
        : "=r"(word) : "r"(all[1]), "r"(all[0]), "r"(high));
    return word ^ turned;
  }
};
"""
"""OUT and SIGNED are those of `NumberNamespace`."""
