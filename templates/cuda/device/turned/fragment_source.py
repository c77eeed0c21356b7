"""CUDA source of fragments of wgmma's left factor, of rows that have k outside, and their order."""

BYTE_ORDER = (0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)
"""Which of 16 gathered rows of bytes ldmatrix.trans and a PRMT bring to each place of k."""

TURN_FRAGMENT = r"""
__device__ __forceinline__ void turn_fragment(unsigned (&a)[4], const unsigned (&r)[4]) {
  if constexpr (SIZE == 2) {
    a[0] = r[0], a[1] = r[1], a[2] = r[2], a[3] = r[3];
  } else {
    a[0] = __byte_perm(r[0], r[1], 0x6420), a[1] = __byte_perm(r[0], r[1], 0x7531);
    a[2] = __byte_perm(r[2], r[3], 0x6420), a[3] = __byte_perm(r[2], r[3], 0x7531);
  }
  // All are ready in front of the fence, or the compiler lets products wait for each other.
  #pragma unroll
  for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(a[e]) : : "memory");
}
"""
"""turn_fragment, of registers that ldmatrix.trans has read."""
