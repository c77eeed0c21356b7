"""CUDA source that finds the values above a cut, four or sixteen at a time."""

CUTS = r"""
// One in the highest bit of bytes whose magnitude is above the cut, which is at least 0.
__device__ __forceinline__ unsigned above(unsigned word, int cut) {
  const unsigned sign = (word >> 7) & 0x01010101u;
  return cut < 128 ? ((word ^ (sign * 255u)) + sign + (127 - cut) * 0x01010101u) & 0x80808080u : 0;
}
"""
"""above(word, cut): for cuts from 0 to 128, above which no magnitude is."""

VECTORS_ABOVE = r"""
__device__ __forceinline__ uint4 read_vector(const void* values, int side, int row, int vector) {
  const size_t at = side ? packed_at(row, 16 * vector) / 16 : (size_t)row * VECTORS + vector;
  return __ldg(static_cast<const uint4*>(values) + at);
}
__device__ __forceinline__ unsigned mask_of(const uint4& v, int cut) {
  return above(v.x, cut) | above(v.y, cut) >> 1 | above(v.z, cut) >> 2 | above(v.w, cut) >> 3;
}
// Which of 16 values the mask's highest bit means, which is taken away.
__device__ __forceinline__ int next_of(unsigned& mask) {
  const int zeros = __clz(mask);
  mask ^= 0x80000000u >> zeros;
  return zeros % 8 * 4 + 3 - zeros / 8;
}
"""
"""read_vector(values, side, row, vector): 16 values of a row of a, side 0, or of a column of b;
mask_of(v, cut): which of them are above it, those of word w in bits 7 - w of its bytes; next_of
takes one away. For a namespace with `PACKED_AT`, `CUTS` and VECTORS, of a row of a."""
