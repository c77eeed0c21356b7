"""CUDA source of Magicube's product: a block of threads copies the rows of b that a step names.

Li, Osawa, Hoefler, SC 2022, algorithm 1. All warps of a block share the steps of a group, and each
takes 32 columns. The rows of a step come to shared memory together, a step ahead in registers if
that is asked for; a lane then reads four columns of each of its rows as words and turns four words
of four bytes in its registers.
"""

from __future__ import annotations

ONLINE_SOURCE = r"""
constexpr int UNITS = 32 * TILE / 16, EACH = UNITS / THREADS, PITCH = TILE / 4 + PADDING;

__device__ __forceinline__ void read_rows(
    uint4 (&held)[EACH], const B* b, const int* places, int step, int first_column, int thread) {
  #pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int unit = i * THREADS + thread, row = unit / (TILE / 16);
    const int column = first_column + unit % (TILE / 16) * 16;
    held[i] = make_uint4(0, 0, 0, 0);
    if (column < N) {
      const int at = __ldg(places + step * 32 + row) + column;
      if constexpr (NIBBLES) {  // as they are, until they are written
        const uint2 sixteen = __ldg(reinterpret_cast<const uint2*>(b + at / 2));
        held[i].x = sixteen.x, held[i].y = sixteen.y;
      } else {
        held[i] = __ldg(reinterpret_cast<const uint4*>(b + at));
      }
    }
  }
}
__device__ __forceinline__ void write_rows(
    unsigned* shared, const uint4 (&held)[EACH], int thread) {
  #pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int unit = i * THREADS + thread, row = unit / (TILE / 16), at = unit % (TILE / 16) * 4;
    uint4 bytes = held[i];
    if constexpr (NIBBLES) bytes = widened(make_uint2(held[i].x, held[i].y));
    *reinterpret_cast<uint4*>(shared + row * PITCH + at) = bytes;
  }
}

__device__ __forceinline__ void multiply_sparse(
    unsigned char* smem, const B* b, const int* values, const void* places_of, const int* starts,
    const int* rows_of, const int* runs, const int* firsts, const Constants& from, OUT* y,
    int block, int thread) {
  unsigned* shared = reinterpret_cast<unsigned*>(smem);
  const int* places = reinterpret_cast<const int*>(places_of);
  const int group = block / TILES, tile = block % TILES * TILE;
  const int warp = thread / 32, number = thread % 32;
  const Lane lane = {number, tile + warp * 32 + number / 4 * 4};
  const int begin = __ldg(starts + group), end = __ldg(starts + group + 1);
  const Channels own = terms_of(from);
  const Rows rows = rows_from(from, group, lane);
  const uint2* own_values = reinterpret_cast<const uint2*>(values) + number;
  int sums[ALL_SUMS];
  clear(sums, start_of(own));
  uint4 held[EACH];
  if constexpr (AHEAD) read_rows(held, b, places, begin, tile, thread);
  #pragma unroll 1
  for (int step = begin; step < end; ++step) {
    uint2 vectors[LEFT_DIGITS];
    #pragma unroll
    for (int i = 0; i < LEFT_DIGITS; ++i)
      vectors[i] = __ldg(own_values + (step * LEFT_DIGITS + i) * 32);
    if constexpr (!AHEAD) read_rows(held, b, places, step, tile, thread);
    write_rows(shared, held, thread);
    __syncthreads();
    if (AHEAD && step + 1 < end) read_rows(held, b, places, step + 1, tile, thread);
    unsigned words[8][1];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = i / 2 * 8 + number % 4 * 2 + i % 2;
      words[i][0] = shared[row * PITCH + warp * 8 + number / 4];
    }
    multiply_digit<0>(sums, vectors, words);
    __syncthreads();
  }
  finish(sums, rows, own, from, y, __ldg(rows_of + group), lane);
}
"""
