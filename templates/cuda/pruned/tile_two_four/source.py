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
// A stage is one step. Its words are read while the step before is multiplied.
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
  __device__ __forceinline__ void take(
      SUM (&sums)[ALL], const Window& window, unsigned weights, int s, int lane) {
    const uint4 pick = words_at(weights + s % STAGES * W_STAGE + PICKS_AT + lane % 4 * 16);
    Words words[4];
    place_of.read_one(words[0], pick.x, window), place_of.read_one(words[1], pick.y, window);
    place_of.read_one(words[2], pick.z, window), place_of.read_one(words[3], pick.w, window);
    if (s > 0) multiply(sums, weights + (s - 1) % STAGES * W_STAGE, lane);
    #pragma unroll
    for (int i = 0; i < 2 * BLOCKS_M; ++i) {
      #pragma unroll
      for (int e = 0; e < 4; ++e) x[i][e] = words[e].of(i);
    }
  }
  __device__ __forceinline__ void end(SUM (&sums)[ALL], unsigned weights, int stages, int lane) {
    if (stages > 0) multiply(sums, weights + (stages - 1) % STAGES * W_STAGE, lane);
  }
};

"""
"""Products of stages for `picked_mma_sync.source`, by product<selector>(d, a, b, metadata)."""
