"""CUDA source of products of four bytes at a time, whichever of the factors are signed."""

BYTE_PRODUCTS = r"""
template <typename A, typename B>
__device__ __forceinline__ int multiply_bytes(unsigned a, unsigned b, int c) {
  if constexpr (SIGNED<A> && SIGNED<B>) return __dp4a((int)a, (int)b, c);
  int d;
  if constexpr (SIGNED<A>) {
    asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  } else if constexpr (SIGNED<B>) {
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  }
  return d;
}
"""
"""multiply_bytes<A, B>(a, b, c): c and the products of bytes A of word a by bytes B of word b."""
