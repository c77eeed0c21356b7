"""The cuts of all rows of a and columns of b, from the parts of weighed sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.cuts import CUTS, VECTORS_ABOVE
from autoq.templates.cuda.device.residual.parts_of_sums import (
    ROUGH_COLUMN,
    ROUGH_ROW,
    PartsOfSums,
)
from autoq.templates.cuda.device.residual.sides import Sides
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.target import Target

_VECTORS = 128
"""Rows or columns of a block, a lane for each in eight warps that share their parts."""
_THREADS = 8 * _VECTORS

# Lanes have neighbouring vectors, warps an eighth of the parts each. Sums are added in one order.
_SOURCE = r"""
constexpr int THREADS = 8 * VECTORS_A_BLOCK;
static_assert(THREADS / 32 == 32, "a warp adds what warps found");
__device__ __forceinline__ double sum_of(const Part* parts, int count, size_t step, int eighth) {
  double sum = 0.;
  #pragma unroll 8
  for (int i = eighth; i < count; i += 8) sum += __ldg(parts + i * step);
  return sum;
}
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
// A thread's part of what the vectors of one side are divided by: the magnitudes of the other
// side's, weighed.
__device__ __forceinline__ double part_of_whole(
    const int* magnitudes, const float* scales, int count, int thread) {
  double whole = 0.;
  #pragma unroll 8
  for (int i = thread; i < count; i += THREADS)
    whole += (double)__ldg(magnitudes + i) * (double)__ldg(scales + i);
  return whole;
}
// A thread's part of a row's or a column's weighed sum, from the product itself.
__device__ __forceinline__ double weighed_again(
    const int* product, const float* scales, int side, int vector, int thread) {
  const size_t first = side ? vector : (size_t)vector * N, step = side ? N : 1;
  double sum = 0.;
  #pragma unroll 8
  for (int i = thread; i < (side ? M : N); i += THREADS) {
    const double value = (double)__ldg(product + first + i * step);
    sum += (value < 0. ? -value : value) * (double)__ldg(scales + i);
  }
  return sum;
}
// A vector whose cut is one of two integers, or between them: its number in the block.
struct Open { int own, least, most; };
// Whether a vector has values that some of the cuts keep and others do not, as a warp finds it.
__device__ __forceinline__ bool decides(
    const void* peaks, const void* values, int side, int vector, const Open& open, int lane) {
  bool found = false;
  for (int at = lane; at < PEAKS / 16 && 16 * at < VECTORS; at += 32) {
    const uint4 v = __ldg(static_cast<const uint4*>(peaks) + (size_t)vector * (PEAKS / 16) + at);
    unsigned hits = mask_of(v, open.least);
    while (hits && !found) {
      const int unit = 16 * at + next_of(hits);
      if (unit >= VECTORS) continue;
      const uint4 some = read_vector(values, side, vector, unit);
      found = (mask_of(some, open.least) & ~mask_of(some, open.most)) != 0;
    }
  }
  return __any_sync(0xffffffffu, found);
}
__device__ __forceinline__ void cut_vectors(
    const Part* row_parts, const Part* column_parts, const float* row_scales,
    const float* column_scales, const int* of_rows, const int* of_columns, const float* threshold,
    const int* product, const void* a_peaks, const void* b_peaks, const void* a, const void* b,
    int* row_cuts, int* column_cuts, void* counts, double* shared, int block, int thread) {
  const int side = block >= BLOCKS_A;
  const int own = thread % VECTORS_A_BLOCK, eighth = thread / VECTORS_A_BLOCK;
  const int vectors = side ? N : M, count = side ? COLUMN_PARTS : ROW_PARTS;
  const int vector = (side ? block - BLOCKS_A : block) * VECTORS_A_BLOCK + own;
  const Part* parts = side ? column_parts : row_parts;
  if (block == 0 && thread < 2) static_cast<unsigned long long*>(counts)[thread] = 0;
  const float* scales = side ? row_scales : column_scales;
  const double sum = vector < vectors ? sum_of(parts + vector, count, vectors, eighth) : 0.;
  const double part = part_of_whole(side ? of_rows : of_columns, scales, side ? M : N, thread);
  shared[thread] = sum;
  const double whole = over_block(part, shared + THREADS, thread);
  const bool first = eighth == 0 && vector < vectors;
  const float by = __ldg(threshold);
  double weighed = 0.;
  int cut = 0;
  if (first) {
    #pragma unroll
    for (int w = 0; w < 8; ++w) weighed += shared[VECTORS_A_BLOCK * w + own];
    cut = whole_cut(weighed, whole, by);
  }
  if constexpr (ROUGH) {
    // Where the error leaves a choice that decides about a value, the vector is weighed again.
    const double error = side ? ROUGH_COLUMN : ROUGH_ROW;
    const bool sound = weighed < 1e300;
    const int least = sound ? whole_cut(weighed * (1. - error), whole, by) : 0;
    const int most = sound ? whole_cut(weighed * (1. + error), whole, by) : 128;
    double* parts = shared + THREADS;  // of each warp; whole is read
    Open* open = reinterpret_cast<Open*>(parts + THREADS / 32);
    int* count = reinterpret_cast<int*>(open + VECTORS_A_BLOCK);
    int mine = -1;
    if (thread == 0) *count = 0;
    __syncthreads();
    if (first && least != most) open[mine = atomicAdd(count, 1)] = {own, least, most};
    __syncthreads();
    const int top = vector - own, all = *count;
    for (int item = thread / 32; item < all; item += THREADS / 32) {
      const Open one = open[item];
      const bool due = decides(side ? b_peaks : a_peaks, side ? b : a, side, top + one.own, one,
                               thread % 32);
      if (!due && thread % 32 == 0) open[item].own = -1;
    }
    __syncthreads();
    if (mine >= 0) cut = least;
    #pragma unroll 1
    for (int item = 0; item < all; ++item) {
      const int one = open[item].own;
      if (one < 0) continue;
      const double again =
          over_block(weighed_again(product, scales, side, top + one, thread), parts, thread);
      if (mine == item) cut = whole_cut(again, whole, by);
      __syncthreads();
    }
  }
  if (first) (side ? column_cuts : row_cuts)[vector] = cut;
}
"""


def cut_kernel(
    given: Sequence[TensorSpec], searched: Sequence[TensorSpec], sides: Sides, parts: PartsOfSums,
    vectors: int, layout: WeightLayout, target: Target,
) -> PrimFunc:  # fmt: skip
    """The kernel that writes `sides.cuts`, and zeros to `sides.kept` for those who count next.

    given: `parts.arrays`, scales of rows and columns, their sums of magnitudes, the threshold, and
    the product, which is read where parts are rough and leave a cut open. searched: peaks of a and
    of b, a [m, 16 * vectors] and b, packed, which are read there too. Parameters are these, then
    what is written.
    """
    blocks_a = blocks_for(sides.m, _VECTORS)
    sizes = {"M": sides.m, "N": sides.n, "BLOCKS_A": blocks_a, "VECTORS_A_BLOCK": _VECTORS,
             "ROW_PARTS": parts.of_rows, "COLUMN_PARTS": parts.of_columns, "ROUGH": parts.rough,
             **layout.sizes(), "VECTORS": vectors, "PEAKS": searched[0].shape[1]}  # fmt: skip
    source = PACKED_AT + CUTS + VECTORS_ABOVE + _SOURCE
    for name, error in (("ROUGH_COLUMN", ROUGH_COLUMN), ("ROUGH_ROW", ROUGH_ROW)):
        source = source.replace(name, error.hex())
    functions = DeviceNamespace("cut_vectors", source, {"Part": parts.dtype}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        size = (_THREADS + _THREADS // 32 + 3 * _VECTORS // 2 + 1,)
        shared = builder.alloc_buffer(size, "float64", scope="shared").data
        call(functions.function("cut_vectors"), *pointers, shared, block, thread)

    parameters = [*given, *searched, *sides.cuts, sides.kept]
    blocks = blocks_a + blocks_for(sides.n, _VECTORS)
    return thread_kernel(parameters, blocks, _THREADS, target, body)
