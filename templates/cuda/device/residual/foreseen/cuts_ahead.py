"""The cuts of all rows of a and columns of b before their product, from how both sides weigh.

Rows of a have been weighed. A column of b is not read where a bound settles its cut: with weights
w_k of mean w and |b'_kj| of mean m, sum_k |b'_kj| w_k is within |sizes - m| |weights - w| of K m w,
by the inequality of Cauchy and Schwarz, and a cut is an integer. Only columns that the bound leaves
between two of them are weighed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.foreseen.magnitudes import MAGNITUDES
from autoq.templates.cuda.device.residual.foreseen.weigh_side import SideWeighed
from autoq.templates.cuda.device.residual.foreseen.whole_cut import WHOLE_CUT
from autoq.templates.cuda.device.residual.sides import Sides
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_VECTORS = 64
"""Rows or columns of a block."""
_THREADS = 256

# What doubles round is far below SLACK of a sum, whose terms are not negative.
_SOURCE = r"""
constexpr double SLACK = 0x1p-40;
struct Spread { double mean, square; };  // of weights: their mean, squares of distances from it
__device__ __forceinline__ Spread spread_of(const double* weights, double* shared, int thread) {
  double sum = 0., square = 0.;
  #pragma unroll 8
  for (int k = thread; k < K; k += THREADS) {
    const double w = __ldg(weights + k);
    sum += w, square = __fma_rn(w, w, square);
  }
  sum = over_block(sum, shared, thread);
  square = over_block(square, shared + THREADS / 32, thread);
  return {sum / K, fmax(square - sum * (sum / K), 0.) + square * SLACK};
}
__device__ __forceinline__ double weighed_column(
    const void* values, const double* weights, int column, int lane) {
  double sum = 0.;
  #pragma unroll 2
  for (int unit = lane; unit < VECTORS_OF_K; unit += 32) {
    const size_t at = packed_at(column, 16 * unit) / 16;
    const uint4 v = __ldg(static_cast<const uint4*>(values) + at);
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
    #pragma unroll
    for (int w = 0; w < 4; ++w) {
      const unsigned sizes = magnitudes_of(words[w]);
      #pragma unroll
      for (int i = 0; i < 4; ++i)
        sum = __fma_rn(magnitude(sizes, i), __ldg(weights + 16 * unit + 4 * w + i), sum);
    }
  }
  return over_lanes(sum, 32);
}
__device__ __forceinline__ void cut_ahead(
    const double* row_sums, const double* weights, const void* values, const int* squares,
    const float* row_scales, const float* column_scales, const int* of_rows, const int* of_columns,
    const float* threshold, int* row_cuts, int* column_cuts, void* counts, double* shared,
    int block, int thread) {
  const int side = block >= BLOCKS_A;
  const int vectors = side ? N : M, vector = (side ? block - BLOCKS_A : block) * VECTORS + thread;
  const bool there = thread < VECTORS && vector < vectors;
  if (block == 0 && thread < 2) static_cast<unsigned long long*>(counts)[thread] = 0;
  const double whole = whole_of(side ? of_rows : of_columns, side ? row_scales : column_scales,
                                side ? M : N, shared, thread);
  const float by = __ldg(threshold);
  if (!side) {
    double sum = 0.;
    if (there) {
      #pragma unroll 8
      for (int i = 0; i < CHUNKS; ++i) sum += __ldg(row_sums + (size_t)i * M + vector);
      row_cuts[vector] = whole_cut(sum, whole, by);
    }
    return;
  }
  const Spread spread = spread_of(weights, shared + THREADS / 32, thread);
  int* list = reinterpret_cast<int*>(shared + 3 * (THREADS / 32));
  int* count = list + VECTORS;
  if (thread == 0) *count = 0;
  __syncthreads();
  if (there) {
    const double sizes = (double)__ldg(of_columns + vector);
    double square = 0.;
    for (int i = 0; i < CHUNKS; ++i) square += (double)__ldg(squares + (size_t)i * N + vector);
    const double sum = sizes * spread.mean, own = fmax(square - sizes * (sizes / K), 0.);
    const double error = sqrt((own + square * SLACK) * spread.square) * (1. + SLACK) + sum * SLACK;
    const int least = whole_cut(fmax(sum - error, 0.), whole, by);
    const int most = whole_cut(sum + error, whole, by);
    if (least == most && sum < 1e300) column_cuts[vector] = least;
    else list[atomicAdd(count, 1)] = vector;
  }
  __syncthreads();
  for (int i = thread / 32; i < *count; i += THREADS / 32) {
    const double sum = weighed_column(values, weights, list[i], thread % 32);
    if (thread % 32 == 0) column_cuts[list[i]] = whole_cut(sum, whole, by);
  }
}
"""


def cuts_ahead_kernel(
    given: Sequence[TensorSpec], sides: Sides, a: SideWeighed, layout: WeightLayout, target: Target
) -> PrimFunc:
    """The kernel that writes `sides.cuts`, and zeros to `sides.kept` for those who count next.

    given: sums of rows of a, its weights, b, sums of b's squares, scales of rows and columns, their
    sums of magnitudes and the threshold; parameters these, then what is written.
    """
    blocks_a = blocks_for(sides.m, _VECTORS)
    sizes = {
        **layout.sizes(), "M": sides.m, "N": sides.n, "K": sides.k, "BLOCKS_A": blocks_a,
        "VECTORS": _VECTORS, "VECTORS_OF_K": a.vectors, "CHUNKS": a.chunks, "THREADS": _THREADS,
    }  # fmt: skip
    source = PACKED_AT + MAGNITUDES + WHOLE_CUT + _SOURCE
    functions = DeviceNamespace("cut_ahead", source, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        size = (3 * (_THREADS // 32) + _VECTORS // 2 + 1,)
        shared = builder.alloc_buffer(size, "float64", scope="shared").data
        call(functions.function("cut_ahead"), *pointers, shared, block, thread)

    blocks = blocks_a + blocks_for(sides.n, _VECTORS)
    return thread_kernel([*given, *sides.cuts, sides.kept], blocks, _THREADS, target, body)
