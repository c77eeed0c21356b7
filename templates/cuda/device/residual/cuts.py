"""CUDA source that finds the values above a cut, four at a time."""

CUTS = r"""
// One in the highest bit of bytes whose magnitude is above the cut, which is at least 0.
__device__ __forceinline__ unsigned above(unsigned word, int cut) {
  const unsigned sign = (word >> 7) & 0x01010101u;
  return cut < 128 ? ((word ^ (sign * 255u)) + sign + (127 - cut) * 0x01010101u) & 0x80808080u : 0;
}
"""
"""above(word, cut): for cuts from 0 to 128, above which no magnitude is."""
