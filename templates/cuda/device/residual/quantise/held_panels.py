"""CUDA source of panels of columns that clusters hold while they find their largest values."""

from autoq.templates.cuda.device.residual.quantise.panels import Panels

HELD_PANELS = r"""
constexpr int ACROSS = PANEL / 4;  // threads that share a row
constexpr int WARPS = THREADS / 32, GROUPS = THREADS / ACROSS;  // of 16 rows that a block has
constexpr int BAND = 4 * PANEL + 4;  // words of 16 rows of a panel, and 4: other banks for the next
constexpr int WARP_BANDS = 32 / ACROSS * BAND;
constexpr int PEAK_PITCH = GROUPS + 16;
constexpr int TOLD = 2 * BLOCKS * PANEL;  // numbers that blocks tell each other, in two turns
// What a block has in shared memory: values of the next panel that are on their way, residuals
// and peaks of one, and numbers of its columns.
struct Shared {
  float4* waiting;
  unsigned* bands;
  unsigned char* peaks;
  float *parts, *largest, *steps;
  int *sum_parts, *sums, *following;
  unsigned long long* heard;
};
__device__ __forceinline__ Shared shared_of(unsigned char* at) {
  Shared s;
  s.waiting = reinterpret_cast<float4*>(at), at += ASKS ? THREADS * 256 : 0;
  s.bands = reinterpret_cast<unsigned*>(at), at += TURNED ? WARPS * WARP_BANDS * 4 : 0;
  s.peaks = at, at += SUMS ? PANEL * PEAK_PITCH : 0;
  s.heard = reinterpret_cast<unsigned long long*>(at);
  s.parts = reinterpret_cast<float*>(s.heard + 2), s.steps = s.parts + PANEL * WARPS;
  s.largest = s.steps + 2 * PANEL, s.sum_parts = reinterpret_cast<int*>(s.largest + TOLD);
  s.sums = s.sum_parts + PANEL * WARPS, s.following = s.sums + TOLD;
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
__device__ __forceinline__ unsigned shared_address(const void* at) {
  return (unsigned)__cvta_generic_to_shared(at);
}
// Puts a word where another block has `at`, and counts it there. A barrier of the cluster, which
// releases what was written before, would wait for all that the block has written to memory.
__device__ __forceinline__ void tell(void* at, unsigned long long* heard, unsigned word, int rank) {
  if constexpr (BLOCKS == 1) {
    *static_cast<unsigned*>(at) = word;
  } else {
    asm volatile("{ .reg .u32 there, counts; mapa.shared::cluster.u32 there, %0, %3; "
                 "mapa.shared::cluster.u32 counts, %1, %3; "
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 "
                 "[there], %2, [counts]; }"
                 : : "r"(shared_address(at)), "r"(shared_address(heard)), "r"(word), "r"(rank)
                 : "memory");
  }
}
__device__ __forceinline__ void tell_all(void* at, unsigned long long* heard, unsigned word) {
  #pragma unroll
  for (int rank = 0; rank < BLOCKS; ++rank) tell(at, heard, word, rank);
}
// By one thread in each turn: so many bytes are told to this block.
__device__ __forceinline__ void expect(unsigned long long* heard, int bytes) {
  if constexpr (BLOCKS > 1)
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
                 : : "r"(shared_address(heard)), "r"(bytes) : "memory");
}
// By whoever reads what is told.
__device__ __forceinline__ void hear(unsigned long long* heard, int phase) {
  if constexpr (BLOCKS > 1) {
    asm volatile("{ .reg .pred done; WAIT_%=: "
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; "
                 "@!done bra WAIT_%=; }"
                 : : "r"(shared_address(heard)), "r"(phase) : "memory");
  }
}
__device__ __forceinline__ void begin_to_hear(unsigned long long* heard, int thread) {
  if constexpr (BLOCKS > 1) {
    if (thread < 2)
      asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;"
                   : : "r"(shared_address(heard + thread)) : "memory");
    meet_cluster();
  }
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
template <class T, class J> __device__ __forceinline__ T over_cluster(const T* told, J join) {
  T all = *told;
  #pragma unroll
  for (int r = 1; r < BLOCKS; ++r) all = join(all, told[PANEL * r]);
  return all;
}
"""
"""For a namespace with `QUANTISATION` and the constants PANEL (its columns), THREADS, BLOCKS (of a
cluster), COLUMNS, LENGTH, SUMS (whether there are peaks and sums of magnitudes), TURNED (whether
residuals have k as rows) and ASKS: whether a panel comes to shared memory first, of columns that
are whole vectors."""


def shared_bytes(panels: Panels, asks: bool, sums: bool, turned: bool) -> int:
    """What `shared_of` divides."""
    panel, threads = panels.columns, panels.threads
    warps, groups = threads // 32, 4 * threads // panel
    waiting = threads * 256 if asks else 0
    bands = groups * (4 * panel + 4) * 4 if turned else 0
    peaks = panel * (groups + 16) if sums else 0
    told = 4 * panels.blocks * panel
    return waiting + bands + peaks + 16 + 4 * (2 * panel * warps + 2 * panel + told + 2)
