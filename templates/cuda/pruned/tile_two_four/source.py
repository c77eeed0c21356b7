"""CUDA source of a stage of products on mma.sp whose right factor is picked from rows of x."""

from __future__ import annotations

STAGE = r"""
__device__ __forceinline__ uint4 words_at(unsigned at) {
  uint4 w;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "r"(at) : "memory");
  return w;
}
// What 16 columns keep of a step, and where in each four of its k that is.
struct Kept {
  uint4 values;
  unsigned places;
  __device__ __forceinline__ void read(unsigned stage, int block, int lane) {
    values = words_at(stage + block * 512 + lane * 16);
    if (block % SHARED == 0) places = word_at(stage + PLACES_AT + block / SHARED * 128 + lane * 4);
  }
};
// A stage is one step. Its words are read while the step before is multiplied, or in front of it.
struct Products {
  Lane place_of;
  unsigned x[2 * BLOCKS_M][4];  // of eight rows of y each

  // All columns of the tile by eight rows of y at a time.
  __device__ __forceinline__ void multiply(SUM (&sums)[ALL], unsigned stage, int lane) {
    constexpr int BLOCKS_N = WIDTH / 16;
    Kept kept[2];
    kept[0].read(stage, 0, lane);
    #pragma unroll
    for (int block = 0; block < BLOCKS_N; ++block) {
      Kept &own = kept[block % 2], &next = kept[(block + 1) % 2];
      next.places = own.places;
      if (block + 1 < BLOCKS_N) next.read(stage, block + 1, lane);
      #pragma unroll
      for (int i = 0; i < 2 * BLOCKS_M; ++i) {
        SUM* d = sums + i / 2 * (WIDTH / 2) + 4 * (2 * block + i % 2);
        // Where lanes have one word for two blocks, the selector says which half of them is asked.
        if (block % SHARED == 0) product<0>(d, own.values, x[i], own.places);
        else product<SHARED - 1>(d, own.values, x[i], own.places);
      }
    }
  }
  __device__ __forceinline__ void put_together(int e, const Words& words) {
    #pragma unroll
    for (int i = 0; i < 2 * BLOCKS_M; ++i) x[i][e] = words.of(i);
  }
  __device__ __forceinline__ void take(
      SUM (&sums)[ALL], const Window& window, unsigned weights, int s, int lane) {
    const unsigned stage = weights + s % STAGES * W_STAGE;
    const uint4 own = words_at(stage + PICKS_AT + lane % 4 * 16);
    const unsigned pick[4] = {own.x, own.y, own.z, own.w};
    Words words[4];
    #pragma unroll
    for (int e = 0; e < 4; ++e) {
      place_of.read_one(words[e], pick[e], window);
      if constexpr (LAG == 0) put_together(e, words[e]);
    }
    if constexpr (LAG == 0) {
      multiply(sums, stage, lane);
    } else {
      if (s > 0) multiply(sums, weights + (s - 1) % STAGES * W_STAGE, lane);
      #pragma unroll
      for (int e = 0; e < 4; ++e) put_together(e, words[e]);
    }
  }
  __device__ __forceinline__ void end(SUM (&sums)[ALL], unsigned weights, int stages, int lane) {
    if (LAG > 0 && stages > 0) multiply(sums, weights + (stages - 1) % STAGES * W_STAGE, lane);
  }
};

"""
"""Products of stages for `picked_mma_sync.source`, by product<selector>(d, a, b, metadata)."""
