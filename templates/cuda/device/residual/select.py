"""Lists of the values of both sides that are above their row's or column's cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.cuts import CUTS
from autoq.templates.cuda.device.residual.sides import SIDES, Sides
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.cuda.device.residual.weighted_sums import WeightedSums
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_WARPS = 8
_HELD = 16
"""Vectors of 16 values that a lane keeps from counting to listing."""

# A warp takes a row, or a column. Blocks ask for room once, in any order: integer sums do not
# depend on it. Lists that have no room are not written; then the side takes part otherwise.
_SOURCE = r"""
constexpr int CHUNKS = (VECTORS + 31) / 32;
__device__ __forceinline__ uint4 read_vector(const void* values, int side, int row, int vector) {
  if (vector >= VECTORS) return make_uint4(0, 0, 0, 0);
  const size_t at = side ? packed_at(row, 16 * vector) / 16 : (size_t)row * VECTORS + vector;
  return __ldg(static_cast<const uint4*>(values) + at);
}
__device__ __forceinline__ int count_of(const uint4& v, int cut) {
  return __popc(above(v.x, cut) | above(v.y, cut) >> 1 | above(v.z, cut) >> 2 |
                above(v.w, cut) >> 3);
}
__device__ __forceinline__ void list_word(
    unsigned* entries, unsigned& at, unsigned word, int cut, int first) {
  unsigned mask = above(word, cut);
  while (mask) {
    const int zeros = __clz(mask);  // 0, 8, 16 or 24, of the last byte first
    entries[at++] = (unsigned)(first + 3 - zeros / 8) << 8 | (word >> (24 - zeros) & 255u);
    mask ^= 0x80000000u >> zeros;
  }
}
__device__ __forceinline__ void list_vector(
    unsigned* entries, unsigned& at, const uint4& v, int cut, int vector) {
  list_word(entries, at, v.x, cut, 16 * vector), list_word(entries, at, v.y, cut, 16 * vector + 4);
  list_word(entries, at, v.z, cut, 16 * vector + 8);
  list_word(entries, at, v.w, cut, 16 * vector + 12);
}
__device__ __forceinline__ void select_values(
    const void* a, const void* b, const double* row_parts, const double* column_parts,
    const double* whole_rows, const double* whole_columns, const float* threshold,
    void* kept, unsigned* entries_of_a, int* rows_of_a, unsigned* entries_of_b, int* columns_of_b,
    int* row_cuts, int* column_cuts, unsigned* shared, int block, int thread) {
  const int side = block >= BLOCKS_A, lane = thread % 32, warp = thread / 32;
  const int own = (side ? block - BLOCKS_A : block) * WARPS + warp, rows = side ? N : M;
  const int row = min(own, rows - 1);
  const void* values = side ? b : a;
  uint4 held[HELD ? CHUNKS : 1];
  if constexpr (HELD) {
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c) held[c] = read_vector(values, side, row, c * 32 + lane);
  }
  const double weighed = side ? sum_of(column_parts + row, PARTS, N, lane)
                              : sum_of(row_parts + row, PANELS, M, lane);
  const double whole = side ? sum_of(whole_rows, PARTS, 1, lane)
                            : sum_of(whole_columns, PANELS, 1, lane);
  const int cut = whole_cut(weighed, whole, __ldg(threshold));
  unsigned count = 0;
  if constexpr (HELD) {
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c) count += count_of(held[c], cut);
  } else {
    for (int c = 0; c < CHUNKS; ++c)
      count += count_of(read_vector(values, side, row, c * 32 + lane), cut);
  }
  unsigned up_to = count;
  #pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
    const unsigned other = __shfl_up_sync(0xffffffffu, up_to, apart);
    if (lane >= apart) up_to += other;
  }
  const unsigned total = own < rows ? __shfl_sync(0xffffffffu, up_to, 31) : 0;
  if (lane == 0) shared[warp] = total;
  __syncthreads();
  if (thread == 0) {
    unsigned long long all = 0;
    #pragma unroll
    for (int w = 0; w < WARPS; ++w) all += shared[w];
    const unsigned long long room = side ? LISTED_B : LISTED_A;
    unsigned long long* counter = static_cast<unsigned long long*>(kept) + side;
    const unsigned long long start = all ? atomicAdd(counter, all) : 0;
    shared[WARPS] = start + all <= room ? (unsigned)start : 0xffffffffu;
  }
  __syncthreads();
  if (own >= rows) return;
  if (lane == 0) (side ? column_cuts : row_cuts)[row] = cut;
  unsigned start = shared[WARPS];
  if (start == 0xffffffffu) return;
  for (int w = 0; w < warp; ++w) start += shared[w];
  if (lane == 0)
    reinterpret_cast<int2*>(side ? columns_of_b : rows_of_a)[row] =
        make_int2((int)start, (int)total);
  if (count == 0) return;
  unsigned* entries = side ? entries_of_b : entries_of_a;
  unsigned at = start + up_to - count;
  if constexpr (HELD) {
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c) list_vector(entries, at, held[c], cut, c * 32 + lane);
  } else {
    for (int c = 0; c < CHUNKS; ++c) {
      const uint4 v = read_vector(values, side, row, c * 32 + lane);
      list_vector(entries, at, v, cut, c * 32 + lane);
    }
  }
}
"""


def select_kernel(
    given: Sequence[TensorSpec], threshold: TensorSpec, sides: Sides, sums: WeightedSums,
    vectors: int, layout: WeightLayout, target: Target,
) -> PrimFunc:  # fmt: skip
    """The kernel that fills `sides.lists`, `sides.cuts` and counts.

    given: a [m, 16 * vectors] and b, packed; parameters these, `sums.arrays`, threshold,
    `sides.kept`, which `sums` sets to zero, `sides.lists` and `sides.cuts`.
    """
    blocks_a = blocks_for(sides.m, _WARPS)
    sizes = {
        **layout.sizes(), **sides.sizes(), "VECTORS": vectors, "WARPS": _WARPS,
        "BLOCKS_A": blocks_a, "PARTS": sums.parts, "PANELS": sums.panels,
        "HELD": blocks_for(vectors, 32) <= _HELD,
    }  # fmt: skip
    functions = DeviceNamespace("select_values", PACKED_AT + CUTS + SIDES + _SOURCE, {}, sizes)
    parameters = [*given, *sums.arrays, threshold, sides.kept, *sides.lists, *sides.cuts]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        shared = builder.alloc_buffer((_WARPS + 1,), "uint32", scope="shared").data
        call(functions.function("select_values"), *pointers, shared, block, thread)

    blocks = blocks_a + blocks_for(sides.n, _WARPS)
    return thread_kernel(parameters, blocks, 32 * _WARPS, target, body)
