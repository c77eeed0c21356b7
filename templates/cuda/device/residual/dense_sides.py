"""Operands of the products that take a side's part where it keeps too many values for lists.

Nothing is done for sides with lists: what a CUDA graph launches is the same in each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.cuts import CUTS
from autoq.templates.cuda.device.residual.sides import SIDES, Sides
from autoq.templates.cuda.device.residual.turn_words import TURN_WORDS
from autoq.templates.cuda.device.residual.turned import TURNED_AT, turned_sizes
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.target import Target

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
// Residuals of b as products take them, of those that have k as rows: 16 of four columns at a time.
__device__ __forceinline__ void turn_back(
    const void* turned, void* packed, size_t item, size_t items) {
  for (; item < (size_t)((N + 15) / 16) * 4 * VECTORS; item += items) {
    const int column = item / 4 / VECTORS * 16 + item % 4 * 4, first = item / 4 % VECTORS * 16;
    unsigned columns[4][4];
    #pragma unroll
    for (int w = 0; w < 4; ++w) {
      unsigned four[4], found[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = first + 4 * w + i;
        const size_t at = turned_at(k, column) / 4;
        four[i] = k < K ? __ldg(static_cast<const unsigned*>(turned) + at) : 0;
      }
      turn_four(four, found);
      #pragma unroll
      for (int c = 0; c < 4; ++c) columns[c][w] = found[c];
    }
    #pragma unroll
    for (int c = 0; c < 4; ++c)
      if (column + c < N)
        static_cast<uint4*>(packed)[packed_at(column + c, first) / 16] =
            make_uint4(columns[c][0], columns[c][1], columns[c][2], columns[c][3]);
  }
}
__device__ __forceinline__ void fill_sides(
    const void* a, const void* b, const int* row_cuts, const int* column_cuts, const void* kept,
    const float* crossover, const void* turned, void* some_a, void* some_b, int* whole,
    void* residual, int block, int thread) {
  const Way way_a = way_of(kept, crossover, 0), way_b = way_of(kept, crossover, 1);
  if (block == 0 && thread == 0) whole[0] = way_a != LISTED, whole[1] = way_b != LISTED;
  const size_t item = (size_t)block * THREADS + thread, items = (size_t)BLOCKS * THREADS;
  if (way_a != LISTED) mask_side(a, row_cuts, some_a, false, M, way_a == WHOLE, item, items);
  if (way_b != LISTED) mask_side(b, column_cuts, some_b, true, N, way_b == WHOLE, item, items);
  if (TURNED && way_a != LISTED) turn_back(turned, residual, item, items);
}
"""


def fill_sides_kernel(
    parameters: Sequence[TensorSpec | None], sides: Sides, vectors: int, layout: WeightLayout,
    target: Target,
) -> PrimFunc:  # fmt: skip
    """The kernel that writes what products of dense sides read, and which sides are dense.

    parameters: those of `fill_sides`, None for residuals of b, with k as rows and as products take
    them, where the latter are there already; vectors: of 16 values of a row.
    """
    blocks = _BLOCKS_A_UNIT * target.units
    sizes = {
        **layout.sizes(), **sides.sizes(), **turned_sizes(sides.k), "VECTORS": vectors,
        "THREADS": _THREADS,
        "BLOCKS": blocks, "TURNED": parameters[-1] is not None,
    }  # fmt: skip
    source = PACKED_AT + TURNED_AT + TURN_WORDS + CUTS + SIDES + _SOURCE
    functions = DeviceNamespace("fill_sides", source, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        given = iter(pointers)
        taken = [next(given) if spec else 0 for spec in parameters]
        call(functions.function("fill_sides"), *taken, block, thread)

    there = [spec for spec in parameters if spec]
    return thread_kernel(there, blocks, _THREADS, target, body)
