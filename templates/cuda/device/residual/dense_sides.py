"""Operands of the products that take a side's part where it keeps too many values for lists.

Nothing is done for sides with lists: what a CUDA graph launches is the same in each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc

from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.cuts import CUTS
from autoq.templates.cuda.device.residual.sides import SIDES, Sides
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_THREADS = 256
_BLOCKS_A_UNIT = 4

_SOURCE = r"""
__device__ __forceinline__ unsigned some_of(unsigned word, int cut) {
  const unsigned top = above(word, cut) >> 7;
  return word & (top * 255u);
}
__device__ __forceinline__ size_t vector_at(bool packed, int row, int vector) {
  return packed ? packed_at(row, 16 * vector) / 16 : (size_t)row * VECTORS + vector;
}
// The values that take part, 16 at a time.
__device__ __forceinline__ void mask_side(
    const void* values, const int* cuts, void* masked, bool packed, int rows, bool all,
    size_t item, size_t items) {
  for (; item < (size_t)rows * VECTORS; item += items) {
    const int row = item / VECTORS, vector = item % VECTORS;
    const size_t at = vector_at(packed, row, vector);
    uint4 v = __ldg(static_cast<const uint4*>(values) + at);
    if (!all) {
      const int cut = __ldg(cuts + row);
      v.x = some_of(v.x, cut), v.y = some_of(v.y, cut);
      v.z = some_of(v.z, cut), v.w = some_of(v.w, cut);
    }
    static_cast<uint4*>(masked)[at] = v;
  }
}
__device__ __forceinline__ void fill_sides(
    const void* a, const void* b, const int* row_cuts, const int* column_cuts, const void* kept,
    const float* crossover, void* some_a, void* some_b, int* whole, int block, int thread) {
  const Way way_a = way_of(kept, crossover, 0), way_b = way_of(kept, crossover, 1);
  if (block == 0 && thread == 0) whole[0] = way_a != LISTED, whole[1] = way_b != LISTED;
  const size_t item = (size_t)block * THREADS + thread, items = (size_t)BLOCKS * THREADS;
  if (way_a != LISTED) mask_side(a, row_cuts, some_a, false, M, way_a == WHOLE, item, items);
  if (way_b != LISTED) mask_side(b, column_cuts, some_b, true, N, way_b == WHOLE, item, items);
}
"""


def fill_sides_kernel(
    parameters: Sequence[TensorSpec], sides: Sides, vectors: int, layout: WeightLayout,
    target: Target,
) -> PrimFunc:  # fmt: skip
    """The kernel that writes what products of dense sides read, and which sides are dense.

    parameters: those of `fill_sides`; vectors: of 16 values of a row.
    """
    blocks = _BLOCKS_A_UNIT * target.units
    sizes = {
        **layout.sizes(), **sides.sizes(), "VECTORS": vectors, "THREADS": _THREADS,
        "BLOCKS": blocks,
    }  # fmt: skip
    functions = DeviceNamespace("fill_sides", PACKED_AT + CUTS + SIDES + _SOURCE, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        call(functions.function("fill_sides"), *pointers, block, thread)

    return thread_kernel(parameters, blocks, _THREADS, target, body)
