"""The cuts of all rows of a and columns of b, from the parts of weighed sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.parts_of_sums import ROUGH, PartsOfSums
from autoq.templates.cuda.device.residual.sides import Sides
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_VECTORS = 128
"""Rows or columns of a block, a lane for each in eight warps that share their parts."""
_THREADS = 8 * _VECTORS
_GROUP = 256
"""Threads that weigh a row or column again."""

# Lanes have neighbouring vectors, warps an eighth of the parts each. Sums are added in one order.
_SOURCE = r"""
constexpr int THREADS = 8 * VECTORS;
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
// What the vectors of one side are divided by: the magnitudes of the other side's, weighed.
__device__ __forceinline__ double whole_of(
    const int* magnitudes, const float* scales, int count, double* shared, int thread) {
  double whole = 0.;
  #pragma unroll 8
  for (int i = thread; i < count; i += THREADS)
    whole += (double)__ldg(magnitudes + i) * (double)__ldg(scales + i);
  return over_block(whole, shared, thread);
}
// A thread's part of a row's or a column's weighed sum, from the product itself.
__device__ __forceinline__ double weighed_again(
    const int* product, const float* scales, int side, int vector, int thread) {
  const size_t first = side ? vector : (size_t)vector * N, step = side ? N : 1;
  double sum = 0.;
  #pragma unroll 16
  for (int i = thread; i < (side ? M : N); i += GROUP) {
    const double value = (double)__ldg(product + first + i * step);
    sum += (value < 0. ? -value : value) * (double)__ldg(scales + i);
  }
  return sum;
}
__device__ __forceinline__ void cut_vectors(
    const Part* row_parts, const Part* column_parts, const float* row_scales,
    const float* column_scales, const int* of_rows, const int* of_columns, const float* threshold,
    const int* product, int* row_cuts, int* column_cuts, void* counts, double* shared, int block,
    int thread) {
  const int side = block >= BLOCKS_A;
  const int own = thread % VECTORS, eighth = thread / VECTORS;
  const int vectors = side ? N : M, count = side ? COLUMN_PARTS : ROW_PARTS;
  const int vector = (side ? block - BLOCKS_A : block) * VECTORS + own;
  const Part* parts = side ? column_parts : row_parts;
  if (block == 0 && thread < 2) static_cast<unsigned long long*>(counts)[thread] = 0;
  shared[thread] = vector < vectors ? sum_of(parts + vector, count, vectors, eighth) : 0.;
  const double whole = whole_of(side ? of_rows : of_columns, side ? row_scales : column_scales,
                                side ? M : N, shared + THREADS, thread);
  const bool first = eighth == 0 && vector < vectors;
  const float by = __ldg(threshold);
  double weighed = 0.;
  int cut = 0;
  if (first) {
    #pragma unroll
    for (int w = 0; w < 8; ++w) weighed += shared[VECTORS * w + own];
    cut = whole_cut(weighed, whole, by);
  }
  if constexpr (ROUGH) {
    // Where the error leaves a choice of two integers, groups of threads weigh vectors again.
    const double error = ERROR;
    const bool unsure = first &&
        (!(weighed < 1e300) || whole_cut(weighed * (1. - error), whole, by) !=
                                   whole_cut(weighed * (1. + error), whole, by));
    double* parts = shared + THREADS;  // of each warp; whole is read
    int* list = reinterpret_cast<int*>(parts + THREADS / 32);
    int* count = list + VECTORS;
    int mine = -1, all;
    if (thread == 0) *count = 0;
    __syncthreads();
    if (unsure) list[mine = atomicAdd(count, 1)] = vector;
    __syncthreads();
    all = *count;
    #pragma unroll 1
    for (int start = 0; start < all; start += THREADS / GROUP) {
      const int item = start + thread / GROUP;
      double again = 0.;
      if (item < all)
        again = weighed_again(product, side ? row_scales : column_scales, side, list[item],
                              thread % GROUP);
      again = over_lanes(again, 32);
      if (thread % 32 == 0) parts[thread / 32] = again;
      __syncthreads();
      if (mine >= start && mine < start + THREADS / GROUP) {
        again = 0.;
        for (int w = 0; w < GROUP / 32; ++w) again += parts[(mine - start) * (GROUP / 32) + w];
        cut = whole_cut(again, whole, by);
      }
      __syncthreads();
    }
  }
  if (first) (side ? column_cuts : row_cuts)[vector] = cut;
}
"""


def cut_kernel(
    given: Sequence[TensorSpec], sides: Sides, parts: PartsOfSums, target: Target
) -> PrimFunc:
    """The kernel that writes `sides.cuts`, and zeros to `sides.kept` for those who count next.

    given: `parts.arrays`, scales of rows and columns, their sums of magnitudes, the threshold, and
    the product, which is read where parts are rough and leave a cut open; parameters these, then
    what is written.
    """
    blocks_a = blocks_for(sides.m, _VECTORS)
    sizes = {"M": sides.m, "N": sides.n, "BLOCKS_A": blocks_a, "VECTORS": _VECTORS,
             "ROW_PARTS": parts.of_rows, "COLUMN_PARTS": parts.of_columns,
             "ROUGH": parts.rough, "GROUP": _GROUP}  # fmt: skip
    source = _SOURCE.replace("ERROR", ROUGH.hex())
    functions = DeviceNamespace("cut_vectors", source, {"Part": parts.dtype}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        size = (_THREADS + _THREADS // 32 + _VECTORS // 2 + 1,)
        shared = builder.alloc_buffer(size, "float64", scope="shared").data
        call(functions.function("cut_vectors"), *pointers, shared, block, thread)

    parameters = [*given, *sides.cuts, sides.kept]
    blocks = blocks_a + blocks_for(sides.n, _VECTORS)
    return thread_kernel(parameters, blocks, _THREADS, target, body)
