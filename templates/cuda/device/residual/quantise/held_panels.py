"""CUDA source of panels of columns that clusters hold while they find their largest values."""

HELD_PANELS = r"""
constexpr int ACROSS = PANEL / 4;  // threads that share a row
constexpr int WARPS = THREADS / 32, GROUPS = THREADS / ACROSS;  // of 16 rows that a block has
constexpr int BAND = 4 * PANEL + 4;  // words of 16 rows of a panel, and 4: other banks for the next
constexpr int WARP_BANDS = 32 / ACROSS * BAND;
constexpr int PEAK_PITCH = GROUPS + 16;
// What a block has in shared memory: values of the next panel that are on their way, residuals
// and peaks of one, and numbers of its columns.
struct Shared {
  float4* waiting;
  unsigned* bands;
  unsigned char* peaks;
  float *parts, *own, *steps;
  int *sum_parts, *own_sums, *following;
};
__device__ __forceinline__ Shared shared_of(unsigned char* at) {
  Shared s;
  s.waiting = reinterpret_cast<float4*>(at), at += ASKS ? THREADS * 256 : 0;
  s.bands = reinterpret_cast<unsigned*>(at), at += TURNED ? WARPS * WARP_BANDS * 4 : 0;
  s.peaks = at, at += SUMS ? PANEL * PEAK_PITCH : 0;
  s.parts = reinterpret_cast<float*>(at), s.own = s.parts + PANEL * WARPS;
  s.steps = s.own + 2 * PANEL, s.sum_parts = reinterpret_cast<int*>(s.steps + 2 * PANEL);
  s.own_sums = s.sum_parts + PANEL * WARPS, s.following = s.own_sums + 2 * PANEL;
  return s;
}
__device__ __forceinline__ void meet_cluster() {
  if constexpr (BLOCKS > 1) {
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
  } else {
    __syncthreads();
  }
}
// A word of the shared memory of another block of the cluster.
__device__ __forceinline__ unsigned read_other(const void* own, int rank) {
  unsigned word;
  const unsigned at = (unsigned)__cvta_generic_to_shared(own);
  asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %1, %2; "
               "ld.shared::cluster.u32 %0, [there]; }"
               : "=r"(word) : "r"(at), "r"(rank) : "memory");
  return word;
}
// Asks for 16 rows of four columns, which nobody but this thread reads: it waits for no others.
// Zeros where there are none. The L2 fetches what the neighbouring panel reads with them.
__device__ __forceinline__ void ask_for(
    const float* x, float4* waiting, int first, int column, int thread) {
  if constexpr (ASKS) {
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
      const bool there = first + i < LENGTH && column < COLUMNS;
      const float* from = there ? x + (size_t)(first + i) * COLUMNS + column : x;
      asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                   : : "r"((unsigned)__cvta_generic_to_shared(waiting + i * THREADS + thread)),
                       "l"(__cvta_generic_to_global(from)), "r"(there ? 16 : 0) : "memory");
    }
  }
}
__device__ __forceinline__ void take(
    float4 (&v)[16], const float* x, const float4* waiting, int first, int column, int thread) {
  if constexpr (ASKS) asm volatile("cp.async.wait_all;" : : : "memory");
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    if constexpr (ASKS) {
      v[i] = waiting[i * THREADS + thread];
    } else {
      v[i] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (first + i < LENGTH) v[i] = read_four<COLUMNS>(x + (size_t)(first + i) * COLUMNS, column);
    }
  }
}
__device__ __forceinline__ float of_four(const float4& v, int c) {
  return c == 0 ? v.x : c == 1 ? v.y : c == 2 ? v.z : v.w;
}
// Each thread's four numbers, joined over the threads of a warp with the same columns.
template <class T, class J> __device__ __forceinline__ void join_warp(
    T (&x)[4], T* parts, int thread, J join) {
  #pragma unroll
  for (int apart = ACROSS; apart < 32; apart *= 2) {
    #pragma unroll
    for (int c = 0; c < 4; ++c) x[c] = join(x[c], __shfl_xor_sync(0xffffffffu, x[c], apart));
  }
  if (thread % 32 < ACROSS) {
    #pragma unroll
    for (int c = 0; c < 4; ++c) parts[thread / 32 * PANEL + thread % ACROSS * 4 + c] = x[c];
  }
}
// The number of one column over the warps of the block, and over the blocks of the cluster.
template <class T, class J> __device__ __forceinline__ T join_block(
    const T* parts, int column, J join) {
  T all = parts[column];
  #pragma unroll
  for (int warp = 1; warp < WARPS; ++warp) all = join(all, parts[PANEL * warp + column]);
  return all;
}
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ int added(int a, int b) { return a + b; }
template <class T, class J> __device__ __forceinline__ T over_cluster(
    const T* own, int rank, J join) {
  T all = *own;
  #pragma unroll
  for (int r = 1; r < BLOCKS; ++r) {
    const unsigned word = read_other(own, (rank + r) % BLOCKS);
    all = join(all, *reinterpret_cast<const T*>(&word));
  }
  return all;
}
"""
"""For a namespace with `QUANTISATION` and the constants PANEL (its columns), THREADS, BLOCKS (of a
cluster), COLUMNS, LENGTH, SUMS (whether there are peaks and sums of magnitudes), TURNED (whether
residuals have k as rows) and ASKS: whether a panel comes to shared memory first, of columns that
are whole vectors."""


def shared_bytes(panel: int, threads: int, asks: bool, sums: bool, turned: bool) -> int:
    """What `shared_of` divides."""
    warps, groups = threads // 32, 4 * threads // panel
    waiting = threads * 256 if asks else 0
    bands = groups * (4 * panel + 4) * 4 if turned else 0
    peaks = panel * (groups + 16) if sums else 0
    return waiting + bands + peaks + 4 * (2 * panel * warps + 6 * panel + 4)
