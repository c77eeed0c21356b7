"""A block of four by four bytes in registers, transposed: device code that kernels include."""

TURN_BYTES = r"""
// Four words of four bytes, turned.
__device__ __forceinline__ void turn_bytes(const unsigned (&from)[4], unsigned (&to)[4]) {
  const unsigned a = __byte_perm(from[0], from[1], 0x5140);
  const unsigned b = __byte_perm(from[2], from[3], 0x5140);
  const unsigned c = __byte_perm(from[0], from[1], 0x7362);
  const unsigned d = __byte_perm(from[2], from[3], 0x7362);
  to[0] = __byte_perm(a, b, 0x5410), to[1] = __byte_perm(a, b, 0x7632);
  to[2] = __byte_perm(c, d, 0x5410), to[3] = __byte_perm(c, d, 0x7632);
}
"""
"""`turn_bytes(from, to)`, over four words each; eight byte permutes."""
