"""CUDA source of products of float32 on tensor cores: each factor is the sum of two of tf32."""

PARTS = r"""
// x = high + low: `high` is x rounded to the 11 significant bits of tf32, and `low` what is left,
// exactly, at most 2^12 units of x's last place. The product reads 11 bits of it again, so that a
// unit is lost at most, 2^-23 of x.
struct Parts { unsigned high, low; };
__device__ __forceinline__ Parts parts_of(float x) {
  const unsigned high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  return {high, __float_as_uint(__fsub_rn(x, __uint_as_float(high)))};
}
__device__ __forceinline__ void multiply_tf32(
    float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// d[i] += a b[i] of 16 rows, 8 columns and 8 summands, without the product of both low parts, 2^-22
// of theirs. A lane has summands lane % 4 and lane % 4 + 4 of rows lane / 4 and lane / 4 + 8, and
// of column lane / 4: b[i][at] and the next one. N sums in turn hide the latency of tensor cores.
template <int N, int M> __device__ __forceinline__ void multiply(
    float (*d)[4], const Parts (&a)[4], const Parts (&b)[N][M], int at) {
  #pragma unroll
  for (int i = 0; i < N; ++i)
    multiply_tf32(d[i], a[0].low, a[1].low, a[2].low, a[3].low, b[i][at].high, b[i][at + 1].high);
  #pragma unroll
  for (int i = 0; i < N; ++i)
    multiply_tf32(
        d[i], a[0].high, a[1].high, a[2].high, a[3].high, b[i][at].low, b[i][at + 1].low);
  #pragma unroll
  for (int i = 0; i < N; ++i)
    multiply_tf32(
        d[i], a[0].high, a[1].high, a[2].high, a[3].high, b[i][at].high, b[i][at + 1].high);
}
"""
