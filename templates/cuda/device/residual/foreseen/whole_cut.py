"""CUDA source that makes cuts of weighed sums."""

WHOLE_CUT = r"""
// Integers with a larger magnitude matter; NaN gives one that none has.
__device__ __forceinline__ int whole_cut(double weighed, double whole, float threshold) {
  const double cut = 2. * (double)threshold * (weighed / whole);
  return cut < 128. ? (int)cut : 128;
}
__device__ __forceinline__ double over_lanes(double sum, int lanes) {
  #pragma unroll
  for (int apart = lanes / 2; apart > 0; apart /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  return sum;
}
// The block's sum, which all threads get.
__device__ __forceinline__ double over_block(double sum, double* shared, int thread) {
  sum = over_lanes(sum, 32);
  if (thread % 32 == 0) shared[thread / 32] = sum;
  __syncthreads();
  return over_lanes(shared[thread % (THREADS / 32)], THREADS / 32);
}
// What the vectors of one side are divided by: the magnitudes of the other side's, weighed.
__device__ __forceinline__ double whole_of(
    const int* magnitudes, const float* scales, int count, double* shared, int thread) {
  double whole = 0.;
  #pragma unroll 8
  for (int i = thread; i < count; i += THREADS)
    whole += (double)__ldg(magnitudes + i) * (double)__ldg(scales + i);
  return over_block(whole, shared, thread);
}
"""
"""whole_cut(weighed, whole, threshold), whole_of(...), by which weighed sums are divided, and sums
over lanes and blocks, for a namespace with the constant THREADS, a power of two of a block."""
