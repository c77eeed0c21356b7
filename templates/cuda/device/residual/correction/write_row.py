"""CUDA source that scales four sums of a product and of its corrections, and writes them."""

WRITE_ROW = r"""
// Sums of one of two rows and of two bands, which lanes have as instructions leave them, as whole
// lines are written: eight lanes have 32 neighbouring columns of a row, and each has four rows.
__device__ __forceinline__ void exchange(
    const int (&low)[2][4], const int (&high)[2][4], int h, int (&q)[2][4], int lane) {
  const bool odd = lane & 4;
  #pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int first = low[j % 2][2 * h + j / 2], second = high[j % 2][2 * h + j / 2];
    const int other = __shfl_xor_sync(0xffffffffu, odd ? first : second, 4);
    q[0][j] = odd ? other : first, q[1][j] = odd ? second : other;
  }
}
__device__ __forceinline__ void add_product(const int* product, int (&sums)[4], int column) {
  const int4 q = read_sums<true>(product, column);
  sums[0] += q.x, sums[1] += q.y, sums[2] += q.z, sums[3] += q.w;
}
// Scales of four columns, or their bias, 0 beyond the last.
__device__ __forceinline__ void read_columns(
    const float* columns, int column, float (&values)[4]) {
  if constexpr (N % 4 == 0) {
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (WHOLE || column < N) v = __ldg(reinterpret_cast<const float4*>(columns + column));
    values[0] = v.x, values[1] = v.y, values[2] = v.z, values[3] = v.w;
  } else {
    #pragma unroll
    for (int c = 0; c < 4; ++c) values[c] = column + c < N ? __ldg(columns + column + c) : 0.f;
  }
}
__device__ __forceinline__ void write_row(
    float* y, int4 p, const int (&sums)[4], float row_scale, const float (&scale)[4],
    const float (&bias)[4], int column) {
  const int whole[4] = {p.x, p.y, p.z, p.w};
  float value[4];
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    const float unit = 1.f / (2 * MOST);
    const float all = __fadd_rn((float)whole[c], __fmul_rn((float)sums[c], unit));
    value[c] = __fmul_rn(__fmul_rn(all, scale[c]), row_scale);
    if constexpr (BIAS) value[c] = __fadd_rn(value[c], bias[c]);
  }
  if constexpr (N % 4 == 0) {
    if (WHOLE || column < N)
      __stcs(reinterpret_cast<float4*>(y + column),
             make_float4(value[0], value[1], value[2], value[3]));
  } else {
    #pragma unroll
    for (int c = 0; c < 4; ++c)
      if (column + c < N) y[column + c] = value[c];
  }
}
"""
"""`write_row` and what it takes, and `exchange`, for a namespace with `READ_SUMS` and the constants
N, MOST (the largest integer) and BIAS."""
