"""Lists of the values of both sides that are above their row's or column's cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.bands import BAND, LIST_BAND, NOWHERE, SHARED_WORDS, STEP
from autoq.templates.cuda.device.residual.cuts import CUTS, VECTORS_ABOVE
from autoq.templates.cuda.device.residual.sides import Sides
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.target import Target

_WARPS = (1, 2, 4, 8)
_BLOCK_WARPS = 8
_TURNS = 4
"""Vectors of 16 peaks that a lane searches, where so many warps suffice."""
_BAND_LANES = 16
"""Threads of a vector of a band: of 16384 vectors all blocks run together."""
_HELD = 4
"""Values that a thread keeps from when it counts them until it knows where they go."""

# One warp, or several, take a row, or a column: of every 16 neighbouring values they search the
# peak, and the values themselves where that is above the cut. Blocks ask for room in any order:
# integer sums do not depend on it. They ask together for all their rows, since additions to one
# word come one after the other. Lists that have no room are not written; then the side takes part
# otherwise.
_SOURCE = r"""
constexpr int PEAK_VECTORS = (VECTORS + 15) / 16;
// Calls found(k, value) for those of a vector that the mask means.
template <class F> __device__ __forceinline__ void each_of(
    const uint4& v, unsigned mask, int vector, F found) {
  while (mask) {
    const int which = next_of(mask), word = which / 4;
    const unsigned values = word == 0 ? v.x : word == 1 ? v.y : word == 2 ? v.z : v.w;
    found(16 * vector + which, values >> (which % 4 * 8) & 255u);
  }
}
// Calls found(k, value) for this thread's part of a row's values above the cut.
template <class F> __device__ __forceinline__ void search(
    const void* peaks, const void* values, int side, int row, int cut, int first, F found) {
  for (int at = first; at < PEAK_VECTORS; at += THREADS) {
    const size_t peak = (size_t)row * (PEAKS / 16) + at;
    unsigned hits = mask_of(__ldg(static_cast<const uint4*>(peaks) + peak), cut);
    while (hits) {
      const int vector = 16 * at + next_of(hits);
      if (vector >= VECTORS) continue;
      const uint4 v = read_vector(values, side, row, vector);
      each_of(v, mask_of(v, cut), vector, found);
    }
  }
}
constexpr unsigned NO_ROOM = 0xffffffffu;
__device__ __forceinline__ unsigned in_fours(unsigned count) { return (count + 3) & ~3u; }
// Where lists with so much room begin, which hold so many values.
__device__ __forceinline__ unsigned room_for(
    void* kept, int side, unsigned count, unsigned room) {
  if (count == 0) return 0;
  unsigned long long* counter = static_cast<unsigned long long*>(kept) + side;
  const unsigned start =
      (unsigned)(atomicAdd(counter, (unsigned long long)room << 32 | count) >> 32);
  return start + room <= (unsigned)(side ? LISTED_B : LISTED_A) ? start : NO_ROOM;
}
// The list of a block's rows or columns, of which each warp has one.
template <class F> __device__ __forceinline__ void list_band(
    void* entries, int2* lists, void* kept, int side, int at, Band& band, const unsigned* own,
    unsigned count, int all, F search_again) {
  __syncthreads();
  unsigned whole = 0;
  #pragma unroll
  for (int r = 0; r < 8; ++r) whole += band.counts[r];
  const unsigned room = (whole + STEP - 1) / STEP * STEP, eights = room / 8;
  if (all == 0) band.start = room_for(kept, side, whole, room);
  __syncthreads();
  const unsigned start = band.start;
  if (start == NO_ROOM) return;
  if (all == 0) lists[at] = make_int2((int)(start / STEP), (int)(room / STEP));
  unsigned* steps = static_cast<unsigned*>(entries) + start;
  fill_up(steps, band, eights, whole, side ? 0 : NOWHERE, all);
  const auto put = [&](unsigned k, unsigned value) {
    list_entry(steps, band, eights, k, value, all / THREADS);
  };
  if (count > HELD) return search_again(put);
  for (unsigned i = 0; i < count; ++i)
    put(own[i * (ROWS * THREADS)] >> 8, own[i * (ROWS * THREADS)] & 255u);
}
__device__ __forceinline__ void select_values(
    const void* a_peaks, const void* b_peaks, const void* a, const void* b, const int* row_cuts,
    const int* column_cuts, void* kept, unsigned* entries_of_a, int* rows_of_a,
    unsigned* entries_of_b, int* columns_of_b, unsigned* shared, int block, int all) {
  const int thread = all % THREADS, warp = all / 32, lane = thread % 32;
  const int side = block >= BLOCKS_A;
  const int row = (side ? block - BLOCKS_A : block) * ROWS + all / THREADS;
  const bool there = row < (side ? N : M);
  const int first = there ? thread : PEAK_VECTORS;
  const void *values = side ? b : a, *peaks = side ? b_peaks : a_peaks;
  const int cut = there ? __ldg((side ? column_cuts : row_cuts) + row) : 128;
  unsigned* all_entries = side ? entries_of_b : entries_of_a;
  int2* lists = reinterpret_cast<int2*>(side ? columns_of_b : rows_of_a);
  Band& band = *reinterpret_cast<Band*>(shared);
  if constexpr (BANDS) {
    if (all < BAND_WORDS) shared[all] = 0;
    __syncthreads();
  }
  // A thread that finds few keeps them, and meets the latency of memory once.
  unsigned count = 0, *own = shared + HELD_AT + all;
  search(peaks, values, side, row, cut, first, [&](unsigned k, unsigned value) {
    if (count < HELD) own[count * (ROWS * THREADS)] = k << 8 | value;
    if constexpr (BANDS) atomicAdd(&band.counts[k % 8], 1u);
    ++count;
  });
  if constexpr (BANDS) {
    list_band(all_entries, lists, kept, side, row / ROWS, band, own, count, all, [&](auto put) {
      search(peaks, values, side, row, cut, first, put);
    });
    return;
  }
  unsigned up_to = count;
  #pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
    const unsigned other = __shfl_up_sync(0xffffffffu, up_to, apart);
    if (lane >= apart) up_to += other;
  }
  if (lane == 31) shared[warp] = up_to;
  __syncthreads();
  unsigned before = 0, of_row = 0, before_row = 0, whole = 0, room = 0;
  #pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    unsigned found = 0;
    #pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const unsigned own = shared[r * WARPS + w];
      if (r * WARPS + w < warp && r == warp / WARPS) before += own;
      found += own;
    }
    if (r < warp / WARPS) before_row += in_fours(found);
    if (r == warp / WARPS) of_row = found;
    whole += found, room += in_fours(found);
  }
  if (all == 0) shared[ROWS * WARPS] = room_for(kept, side, whole, room);
  __syncthreads();
  const unsigned start = shared[ROWS * WARPS];
  if (start == NO_ROOM) return;
  if (thread == 0 && there)
    lists[row] = make_int2((int)(start + before_row) / 4, (int)in_fours(of_row) / 4);
  unsigned* entries = all_entries + start + before_row;
  if (thread < in_fours(of_row) - of_row) entries[of_row + thread] = 0;
  unsigned at = before + up_to - count;
  if (count > HELD) {
    search(peaks, values, side, row, cut, first,
           [&](unsigned k, unsigned value) { entries[at++] = k << 8 | value; });
  } else {
    for (unsigned i = 0; i < count; ++i) entries[at + i] = own[i * (ROWS * THREADS)];
  }
}
"""


def select_kernel(
    given: Sequence[TensorSpec], sides: Sides, vectors: int, layout: WeightLayout, target: Target
) -> PrimFunc:
    """The kernel that fills `sides.lists` and counts.

    given: peaks of a and of b, a [m, 16 * vectors] and b, packed; parameters these,
    `sides.cuts`, `sides.kept`, which holds zeros, and `sides.lists`.
    """
    turns = {n: blocks_for(vectors, 16 * 32 * n) for n in _WARPS}
    warps = next((n for n in _WARPS if turns[n] <= _TURNS), _WARPS[-1])
    rows = _BLOCK_WARPS if warps == 1 else 1
    lanes = 32 * warps
    if sides.bands:
        lanes, rows = _BAND_LANES, BAND
    threads = lanes * rows
    words = SHARED_WORDS if sides.bands else rows * warps + 1
    sizes = {
        **layout.sizes(), **sides.sizes(), "VECTORS": vectors, "WARPS": warps, "THREADS": lanes,
        "PEAKS": given[0].shape[1], "BANDS": sides.bands, "STEP": STEP, "NOWHERE": NOWHERE,
        "ROWS": rows, "HELD": _HELD, "HELD_AT": words, "BAND_WORDS": SHARED_WORDS,
        "BLOCKS_A": blocks_for(sides.m, rows),
    }  # fmt: skip
    source = PACKED_AT + CUTS + VECTORS_ABOVE + LIST_BAND + _SOURCE
    functions = DeviceNamespace("select_values", source, {}, sizes)
    parameters = [*given, *sides.cuts, sides.kept, *sides.lists]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        size = (words + threads * _HELD,)
        shared = builder.alloc_buffer(size, "uint32", scope="shared").data
        call(functions.function("select_values"), *pointers, shared, block, thread)

    blocks = sum(blocks_for(extent, rows) for extent in (sides.m, sides.n))
    return thread_kernel(parameters, blocks, threads, target, body)
