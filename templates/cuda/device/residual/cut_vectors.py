"""The cuts of all rows of a and columns of b, from the parts of weighted sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.sides import Sides
from autoq.templates.cuda.device.residual.weighted_sums import WeightedSums
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

# Lanes have neighbouring vectors, warps an eighth of the parts each. Sums are added in one order.
_SOURCE = r"""
__device__ __forceinline__ double sum_of(const double* parts, int count, size_t step, int warp) {
  double sum = 0.;
  #pragma unroll 8
  for (int i = warp; i < count; i += 8) sum += __ldg(parts + i * step);
  return sum;
}
// Integers with a larger magnitude matter; NaN gives one that none has.
__device__ __forceinline__ int whole_cut(double weighed, double whole, float threshold) {
  const double cut = 2. * (double)threshold * (weighed / whole);
  return cut < 128. ? (int)cut : 128;
}
__device__ __forceinline__ void cut_vectors(
    const double* row_parts, const double* column_parts, const double* whole_rows,
    const double* whole_columns, const float* threshold, int* row_cuts, int* column_cuts,
    double* shared, int block, int thread) {
  const int side = block >= BLOCKS_A, lane = thread % 32, warp = thread / 32;
  const int vectors = side ? N : M, count = side ? PARTS : PANELS;
  const int vector = (side ? block - BLOCKS_A : block) * 32 + lane;
  const double* parts = side ? column_parts : row_parts;
  shared[thread] = vector < vectors ? sum_of(parts + vector, count, vectors, warp) : 0.;
  const double* of_whole = side ? whole_rows : whole_columns;
  double whole = 0.;
  for (int i = thread; i < count; i += 256) whole += __ldg(of_whole + i);
  shared[256 + thread] = whole;
  __syncthreads();
  if (warp > 0) return;
  double weighed = shared[lane];
  whole = shared[256 + lane];
  #pragma unroll
  for (int w = 1; w < 8; ++w) {
    weighed += shared[32 * w + lane];
    whole += shared[256 + 32 * w + lane];
  }
  #pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) whole += __shfl_xor_sync(0xffffffffu, whole, apart);
  if (vector < vectors)
    (side ? column_cuts : row_cuts)[vector] = whole_cut(weighed, whole, __ldg(threshold));
}
"""


def cut_kernel(threshold: TensorSpec, sides: Sides, sums: WeightedSums, target: Target) -> PrimFunc:
    """Parameters `sums.arrays`, threshold and `sides.cuts`."""
    blocks_a = blocks_for(sides.m, 32)
    sizes = {"M": sides.m, "N": sides.n, "BLOCKS_A": blocks_a, "PARTS": sums.parts,
             "PANELS": sums.panels}  # fmt: skip
    functions = DeviceNamespace("cut_vectors", _SOURCE, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        shared = builder.alloc_buffer((512,), "float64", scope="shared").data
        call(functions.function("cut_vectors"), *pointers, shared, block, thread)

    parameters = [*sums.arrays, threshold, *sides.cuts]
    return thread_kernel(parameters, blocks_a + blocks_for(sides.n, 32), 256, target, body)
