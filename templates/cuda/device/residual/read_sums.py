"""Sums of four neighbouring columns of a product int32 [m, N], as its kernels read them."""

READ_SUMS = r"""
// ONCE: they leave the cache first, to what is gathered again.
template <bool ONCE> __device__ __forceinline__ int4 read_sums(const int* row, int column) {
  if constexpr (N % 4 == 0) {
    const int4* four = reinterpret_cast<const int4*>(row + column);
    if (!WHOLE && column >= N) return make_int4(0, 0, 0, 0);
    if constexpr (ONCE) return __ldcs(four);
    else return __ldg(four);
  } else {
    return make_int4(column < N ? __ldg(row + column) : 0,
                     column + 1 < N ? __ldg(row + column + 1) : 0,
                     column + 2 < N ? __ldg(row + column + 2) : 0,
                     column + 3 < N ? __ldg(row + column + 3) : 0);
  }
}
"""
"""`read_sums<ONCE>(row, column)`; columns beyond N are 0. Constants of the kernel are N, and
WHOLE: whether no column is beyond it."""
