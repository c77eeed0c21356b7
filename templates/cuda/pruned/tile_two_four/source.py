"""CUDA source of a stage of products on mma.sp whose right factor is picked from rows of x.

A warp has few others beside it, so that what it multiplies next is read ahead: weights AHEAD
instructions before, and words of the next step, where they are, between the products of this one.
"""

from __future__ import annotations

EVERY_WORD = r"""
__device__ __forceinline__ unsigned word_at(unsigned at) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
}
// What a lane reads for a register of each eight rows: two words of swizzled rows.
struct Words {
  unsigned first[2 * BLOCKS_M], second[2 * BLOCKS_M], selector;
  __device__ __forceinline__ void read(unsigned how, unsigned one, unsigned other) {
    #pragma unroll
    for (int i = 0; i < 2 * BLOCKS_M; ++i) {
      const int at = i / 2 * BLOCK_BYTES + i % 2 * (8 * ROW_BYTES);
      first[i] = word_at(one + at), second[i] = word_at(other + at);
    }
    selector = how;
  }
  __device__ __forceinline__ unsigned of(int i) const {
    return __byte_perm(first[i], second[i], selector);
  }
};
"""
"""What `pick_source.TWO_WORDS` has. Few chunks need one word alone, which is read twice."""

STAGE = r"""
__device__ __forceinline__ uint4 words_at(unsigned at) {
  uint4 w;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "r"(at) : "memory");
  return w;
}
// What blocks of 16 columns keep of a step, and where in each four of its k that is: those that are
// read ahead. Of 16-bit floats two blocks have one word of places.
constexpr int BLOCKS_N = WIDTH / 16, AHEAD = BLOCKS_N < 3 ? BLOCKS_N : 3;
struct Kept {
  uint4 values[AHEAD + 1];
  unsigned places[AHEAD + 1];
  __device__ __forceinline__ void read(unsigned stage, int block, int lane) {
    values[block % (AHEAD + 1)] = words_at(stage + block * 512 + lane * 16);
    const int pair = block / SHARED;
    if (block % SHARED == 0)
      places[pair % (AHEAD + 1)] = word_at(stage + PLACES_AT + pair * 128 + lane * 4);
  }
  __device__ __forceinline__ void begin(unsigned stage, int lane) {
    #pragma unroll
    for (int block = 0; block < AHEAD; ++block) read(stage, block, lane);
  }
};
// A stage is one step. Its words are read while the step before is multiplied, or in front of it.
struct Products {
  Lane place_of;  // in the lane's row, which windows begin with
  unsigned row_at;
  unsigned x[2 * BLOCKS_M][4];  // of eight rows of y each

  __device__ __forceinline__ Products(const Lane& lane) : place_of(lane), row_at(lane.row_at) {
    place_of.row_at = 0;
  }

  // One block of columns by all rows of the warp.
  __device__ __forceinline__ void multiply(SUM (&sums)[ALL], const Kept& kept, int block) const {
    const uint4& own = kept.values[block % (AHEAD + 1)];
    const unsigned places = kept.places[block / SHARED % (AHEAD + 1)];
    #pragma unroll
    for (int i = 0; i < 2 * BLOCKS_M; ++i) {
      SUM* d = sums + i / 2 * (WIDTH / 2) + 4 * (2 * block + i % 2);
      // Where lanes have one word for two blocks, the selector says which half of them is asked.
      if (block % SHARED == 0) product<0>(d, own, x[i], places);
      else product<SHARED - 1>(d, own, x[i], places);
    }
  }
  __device__ __forceinline__ void multiply_step(SUM (&sums)[ALL], unsigned stage, int lane) const {
    Kept kept;
    kept.begin(stage, lane);
    #pragma unroll
    for (int block = 0; block < BLOCKS_N; ++block) {
      if (block + AHEAD < BLOCKS_N) kept.read(stage, block + AHEAD, lane);
      multiply(sums, kept, block);
    }
  }
  __device__ __forceinline__ void put_together(
      unsigned (&to)[2 * BLOCKS_M][4], int e, const Words& words) const {
    #pragma unroll
    for (int i = 0; i < 2 * BLOCKS_M; ++i) to[i][e] = words.of(i);
  }
  __device__ __forceinline__ void read_step(const unsigned (&pick)[4], const Window& window) {
    Words words[4];
    #pragma unroll
    for (int e = 0; e < 4; ++e) place_of.read_one(words[e], pick[e], window);
    #pragma unroll
    for (int e = 0; e < 4; ++e) put_together(x, e, words[e]);
  }
  // A step is multiplied, and the words of the next one are read and put together in between.
  __device__ __forceinline__ void multiply_and_read(
      SUM (&sums)[ALL], unsigned stage, const unsigned (&pick)[4], const Window& window, int lane) {
    unsigned next[2 * BLOCKS_M][4];
    Words words[4];
    Kept kept;
    kept.begin(stage, lane);
    #pragma unroll
    for (int block = 0; block < BLOCKS_N; ++block) {
      if (block + AHEAD < BLOCKS_N) kept.read(stage, block + AHEAD, lane);
      #pragma unroll
      for (int e = 0; e < 4; ++e)
        if (e * BLOCKS_N / 4 == block) place_of.read_one(words[e], pick[e], window);
      multiply(sums, kept, block);
      #pragma unroll
      for (int e = 0; e < 4; ++e)
        if (e * BLOCKS_N / 4 == block) put_together(next, e, words[e]);
    }
    #pragma unroll
    for (int i = 0; i < 2 * BLOCKS_M; ++i) {
      #pragma unroll
      for (int e = 0; e < 4; ++e) x[i][e] = next[i][e];
    }
  }
  __device__ __forceinline__ void take(
      SUM (&sums)[ALL], const Window& newest, unsigned weights, int s, int lane) {
    const unsigned stage = weights + s % STAGES * W_STAGE;
    const Window window = {newest.even + row_at, newest.odd + row_at};
    const uint4 own = words_at(stage + PICKS_AT + lane % 4 * 16);
    const unsigned pick[4] = {own.x, own.y, own.z, own.w};
    if (LAG == 0 || s == 0) read_step(pick, window);
    else multiply_and_read(sums, weights + (s - 1) % STAGES * W_STAGE, pick, window, lane);
    if constexpr (LAG == 0) multiply_step(sums, stage, lane);
  }
  __device__ __forceinline__ void end(SUM (&sums)[ALL], unsigned weights, int stages, int lane) {
    if (LAG > 0 && stages > 0)
      multiply_step(sums, weights + (stages - 1) % STAGES * W_STAGE, lane);
  }
};

"""
"""Products of stages for `picked_mma_sync.source`, by product<selector>(d, a, b, metadata)."""
