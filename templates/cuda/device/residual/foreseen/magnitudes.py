"""CUDA source that takes magnitudes of bytes as doubles."""

MAGNITUDES = r"""
__device__ __forceinline__ double magnitude(unsigned word, int which) {
  const int size = (int)__byte_perm(word, 0, 0x4440 + which);
  return __dadd_rn(__hiloint2double(0x43300000, size), -0x1p52);
}
// The magnitudes of four values, none of which is -128.
__device__ __forceinline__ unsigned magnitudes_of(unsigned word) {
  const unsigned sign = word >> 7 & 0x01010101u;
  return (word ^ sign * 255u) + sign;
}
"""
"""magnitudes_of(word): of four values; magnitude(word, which): one of them."""
