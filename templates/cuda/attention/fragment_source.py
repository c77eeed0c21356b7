"""CUDA source of attention's fragments: what ldmatrix reads for both products, and mma.sync."""

FRAGMENTS = r"""
constexpr int KEY_TILES = TILE_KEYS / 8, OUT_TILES = DEPTH_STEPS * 32 / SIZE / 8;

// 16 rows of queries at one step along the depth.
__device__ __forceinline__ void read_queries(
    unsigned (&a)[4], unsigned queries, int tile, int step, int lane) {
  read_matrices<false>(a, queries + (tile * 16 + lane % 16) * PITCH + step * 32 + lane / 16 * 16);
}
// 16 keys at one step: fragments of two tiles of 8 keys.
__device__ __forceinline__ void read_keys(
    unsigned (&b)[4], unsigned keys, int pair, int step, int lane) {
  const int key = pair * 16 + lane / 16 * 8 + lane % 8;
  read_matrices<false>(b, keys + key * PITCH + step * 32 + lane / 8 % 2 * 16);
}
template <class S> __device__ __forceinline__ void multiply_keys(
    S (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  static_assert(sizeof(S) == 4, "sums are of 32 bits");
  if constexpr (SIZE == 2)
    asm("SCORES_PRODUCT {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("SCORES_PRODUCT {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// The same where products begin with what is in other registers, so that none is moved.
__device__ __forceinline__ void start_bytes(
    int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const int (&c)[2]) {
  if constexpr (SIZE == 1)
    asm("SCORES_PRODUCT {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %11, %11};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]));
}
template <class S> __device__ __forceinline__ void multiply_values(
    S (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (SIZE == 2)
    asm("VALUES_PRODUCT {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("VALUES_PRODUCT {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Shares of one step along the keys times values. Of floats a step is 16 keys, and a read gives
// two tiles of 8 columns. Of bytes it is 32 keys: a word has two keys of two columns, permuted to
// four keys of one, and the two tiles are the even and the odd ones of 16 columns.
template <class S> __device__ __forceinline__ void weigh_values(
    S (&sums)[ROW_TILES][OUT_TILES][4], const unsigned (&shares)[ROW_TILES][4], unsigned values,
    int step, int lane) {
  #pragma unroll
  for (int pair = 0; pair < OUT_TILES / 2; ++pair) {
    unsigned b[4];
    if constexpr (SIZE == 2) {
      read_matrices<true>(b, values + (step * 16 + lane % 16) * PITCH + pair * 32 + lane / 16 * 16);
    } else {
      unsigned w[4];
      read_matrices<true>(w, values + (step * 32 + lane) * PITCH + pair * 16);
      b[0] = __byte_perm(w[0], w[1], 0x6420);
      b[1] = __byte_perm(w[2], w[3], 0x6420);
      b[2] = __byte_perm(w[0], w[1], 0x7531);
      b[3] = __byte_perm(w[2], w[3], 0x7531);
    }
    #pragma unroll
    for (int r = 0; r < ROW_TILES; ++r) {
      multiply_values(sums[r][2 * pair], shares[r], b[0], b[1]);
      multiply_values(sums[r][2 * pair + 1], shares[r], b[2], b[3]);
    }
  }
}
"""
"""Accumulators of a tile: a lane holds columns 2 * (lane % 4) and the next of rows lane / 4, then
of rows lane / 4 + 8."""
