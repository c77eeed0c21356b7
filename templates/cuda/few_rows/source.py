"""CUDA source of products of few rows: weights from memory to fragments, sums through memory.

A warp loads a piece of the weights of 16 outputs as the registers of two mma.sync, whose columns
are rows of x. Which k an instruction multiplies is free, so that a lane has 16 neighbouring values
of a row of x.
"""

from __future__ import annotations

SOURCE = r"""
struct alignas(16) Four { unsigned word[4]; };
// Weights are read once: they take no place in the L1, where x stays.
__device__ __forceinline__ Four weights_at(const Four* from, bool there) {
  Four v;
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; "
      "mov.b32 %3, 0; @p ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];}"
      : "=&r"(v.word[0]), "=&r"(v.word[1]), "=&r"(v.word[2]), "=&r"(v.word[3])
      : "l"(__cvta_generic_to_global(from)), "r"((int)there));
  return v;
}
__device__ __forceinline__ void multiply_add(
    int (&sum)[4], const Four& weight, unsigned low, unsigned high) {
  asm volatile("INSTRUCTION {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
               : "r"(weight.word[0]), "r"(weight.word[1]), "r"(weight.word[2]),
                 "r"(weight.word[3]), "r"(low), "r"(high));
}
struct Piece { Four weight[TILES][2]; Four x[COLUMN_TILES]; };

__device__ __forceinline__ void load_weights(
    Piece& piece, const Four* weight, int at, bool there) {
  #pragma unroll
  for (int i = 0; i < 2 * TILES; ++i)
    piece.weight[i / 2][i % 2] = weights_at(weight + (at * 2 * TILES + i) * 32, there);
}
__device__ __forceinline__ void load_x(Piece& piece, const X* x, int at, bool there, int lane) {
  const int first = at * 64 + lane % 4 * 16;
  #pragma unroll
  for (int c = 0; c < COLUMN_TILES; ++c) {
    const int row = c * 8 + lane / 4;
    #pragma unroll
    for (int i = 0; i < 16 / VECTOR; ++i) {
      Raw<X, VECTOR> part = {};
      if (there && row < M && first + i * VECTOR < K)
        part = load<X, VECTOR>(x + row * K + first + i * VECTOR);
      #pragma unroll
      for (int j = 0; j < VECTOR / 4; ++j)
        piece.x[c].word[i * (VECTOR / 4) + j] = part.word[j];
    }
  }
}
__device__ __forceinline__ void multiply_piece(
    int (&sums)[TILES][COLUMN_TILES][4], const Piece& piece) {
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    #pragma unroll
    for (int t = 0; t < TILES; ++t) {
      #pragma unroll
      for (int c = 0; c < COLUMN_TILES; ++c)
        multiply_add(sums[t][c], piece.weight[t][i], piece.x[c].word[2 * i],
                     piece.x[c].word[2 * i + 1]);
    }
  }
}

// Of four neighbouring outputs of a row; N ends where V of them do.
__device__ __forceinline__ void finish_four(
    const int4& sum, const Constants& from, OUT* y, int row, int column) {
  const ACC acc[4] = {sum.x, sum.y, sum.z, sum.w};
  #pragma unroll
  for (int i = 0; i < 4; i += V)
    if (column + i < N) store_outputs(acc + i, from, y, 0, column + i, row * N + column + i);
}
__device__ __forceinline__ void add_four(int4& sum, const int4& other) {
  sum.x += other.x, sum.y += other.y, sum.z += other.z, sum.w += other.w;
}

// Gives a block's sums away; whether the others of its group have been there before.
__device__ __forceinline__ bool is_last(unsigned* count, int* shared, int thread) {
  __threadfence();
  __syncthreads();
  if (thread == 0) *shared = atomicAdd(count, 1u) == SPLITS - 1;
  __syncthreads();
  __threadfence();
  return *shared;
}

__device__ __forceinline__ void multiply_rows(
    unsigned char* smem, const X* x, const void* packed, const Constants& from, void* counts,
    void* parts, OUT* y, int block, int thread) {
  const int lane = thread % 32, warp = thread / 32, group = block / SPLITS;
  const int split = block % SPLITS, last = min(PIECES, (split + 1) * SPLIT_PIECES);
  const Four* weight = static_cast<const Four*>(packed) + group * (PIECES * TILES * 64) + lane;
  int at = split * SPLIT_PIECES + warp;
  Piece ring[DEPTH];
  #pragma unroll
  for (int d = 0; d < DEPTH; ++d)
    load_weights(ring[d], weight, at + d * WARPS, at + d * WARPS < last);
  WAIT
  int sums[TILES][COLUMN_TILES][4] = {};
  #pragma unroll
  for (int d = 0; d < DEPTH; ++d)
    load_x(ring[d], x, at + d * WARPS, at + d * WARPS < last, lane);
  for (; at < last; at += DEPTH * WARPS) {
    #pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
      const int next = at + (d + DEPTH) * WARPS;
      multiply_piece(sums, ring[d]);
      load_weights(ring[d], weight, next, next < last);
      load_x(ring[d], x, next, next < last, lane);
    }
  }
  int* own = reinterpret_cast<int*>(smem) + warp * (M * PITCH);
  #pragma unroll
  for (int t = 0; t < TILES; ++t) {
    #pragma unroll
    for (int c = 0; c < COLUMN_TILES; ++c) {
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = c * 8 + lane % 4 * 2 + i % 2;
        if (row < M) own[row * PITCH + t * 16 + lane / 4 + i / 2 * 8] = sums[t][c][i];
      }
    }
  }
  __syncthreads();
  constexpr int FOURS = TILES * 4, ITEMS = M * FOURS;
  int4* given = static_cast<int4*>(parts) + group * (SPLITS * ITEMS);
  for (int item = thread; item < ITEMS; item += THREADS) {
    const int row = item / FOURS, column = item % FOURS * 4;
    const int* of_warps = reinterpret_cast<const int*>(smem) + row * PITCH + column;
    int4 sum = *reinterpret_cast<const int4*>(of_warps);
    #pragma unroll
    for (int w = 1; w < WARPS; ++w)
      add_four(sum, *reinterpret_cast<const int4*>(of_warps + w * (M * PITCH)));
    if constexpr (SPLITS == 1) finish_four(sum, from, y, row, group * (TILES * 16) + column);
    else __stcg(given + split * ITEMS + item, sum);
  }
  if constexpr (SPLITS > 1) {
    unsigned* count = static_cast<unsigned*>(counts) + group;
    int* shared = reinterpret_cast<int*>(smem) + WARPS * (M * PITCH);
    if (!is_last(count, shared, thread)) return;
    for (int item = thread; item < ITEMS; item += THREADS) {
      int4 sum = __ldcg(given + item);
      #pragma unroll 8
      for (int s = 1; s < SPLITS; ++s) add_four(sum, __ldcg(given + s * ITEMS + item));
      finish_four(sum, from, y, item / FOURS, group * (TILES * 16) + item % FOURS * 4);
    }
    if (thread == 0) *count = 0;
  }
}
"""
"""multiply_rows(smem, x, weights, constants, counts, parts, y, block, thread).

INSTRUCTION is an mma.sync of 16 outputs, 8 rows and 32 values of k, WAIT what a kernel does before
it reads what others have written.
"""
