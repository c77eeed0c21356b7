"""CUDA source that turns four words of four bytes: byte j of word i becomes byte i of word j."""

TURN_WORDS = r"""
__device__ __forceinline__ void turn_four(const unsigned (&v)[4], unsigned (&turned)[4]) {
  const unsigned a = __byte_perm(v[0], v[1], 0x5140), b = __byte_perm(v[2], v[3], 0x5140);
  const unsigned c = __byte_perm(v[0], v[1], 0x7362), d = __byte_perm(v[2], v[3], 0x7362);
  turned[0] = __byte_perm(a, b, 0x5410), turned[1] = __byte_perm(a, b, 0x7632);
  turned[2] = __byte_perm(c, d, 0x5410), turned[3] = __byte_perm(c, d, 0x7632);
}
"""
"""turn_four(words, turned)."""
