"""Rows of float32 as integers: a few lanes hold a row, find its largest value and store it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.quantise.quantisation import QUANTISATION
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.target import Target

_THREADS = 256
_HELD = 16
"""Vectors of four values that a lane keeps from the search of the largest to the end."""

_SOURCE = r"""
constexpr int CHUNKS = (WORDS + LANES - 1) / LANES;
__device__ __forceinline__ size_t word_at(int row, int word) {
  if constexpr (PACKED) return packed_at(row, 4 * word) / 4;
  else return (size_t)row * WORDS + word;
}
__device__ __forceinline__ float join(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ int join(int a, int b) { return a + b; }
// The largest float, or the sum of integers, for every lane.
template <class T> __device__ __forceinline__ T over_lanes(T x, T* shared, int thread) {
  #pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) x = join(x, __shfl_xor_sync(0xffffffffu, x, apart));
  if constexpr (LANES > 32) {
    T* own = shared + thread / LANES * (LANES / 32);
    if (thread % 32 == 0) shared[thread / 32] = x;
    asm volatile("bar.sync %0, %1;" : : "r"(1 + thread / LANES), "n"(LANES) : "memory");
    x = own[0];
    #pragma unroll
    for (int warp = 1; warp < LANES / 32; ++warp) x = join(x, own[warp]);
  }
  return x;
}
struct Arrays {
  const float* x;
  unsigned *values, *residual;
  float* scales;
  int* magnitudes;
  unsigned char* peaks;
  const float* bias;
  float* shared;
};
__device__ __forceinline__ void store_word(
    const Arrays& to, int row, int word, float4 x, const Steps& steps, float& sum) {
  const float4 q = quantised(x, steps);
  const size_t at = word_at(row, word);
  to.values[at] = word_of(q);
  if constexpr (RESIDUAL) to.residual[at] = word_of(residuals(x, q, steps));
  if constexpr (SUMS) {
    const float a = magnitude(q.x), b = magnitude(q.y), c = magnitude(q.z), d = magnitude(q.w);
    sum += a + b + c + d;
    float peak = fmaxf(fmaxf(a, b), fmaxf(c, d));
    const unsigned four = 15u << (threadIdx.x % 32 & 28);  // lanes of 16 neighbouring values
    peak = fmaxf(peak, __shfl_xor_sync(four, peak, 1));
    peak = fmaxf(peak, __shfl_xor_sync(four, peak, 2));
    if (word % 4 == 0) to.peaks[(size_t)row * PEAKS + word / 4] = peak_of(peak);
  }
}
__device__ __forceinline__ void quantise_row(const Arrays& to, int own, int thread) {
  const int lane = thread % LANES, row = min(own, ROWS - 1);
  const float* from = to.x + (size_t)row * LENGTH;
  float4 held[HELD ? CHUNKS : 1];
  float largest = 0.f, sum = 0.f;
  if constexpr (HELD) {
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c) held[c] = read_four<LENGTH>(from, 4 * (c * LANES + lane));
    #pragma unroll
    for (int c = 0; c < CHUNKS; ++c) largest = fmaxf(largest, largest_of(held[c]));
  } else {
    #pragma unroll 8
    for (int c = 0; c < CHUNKS; ++c)
      largest = fmaxf(largest, largest_of(read_four<LENGTH>(from, 4 * (c * LANES + lane))));
  }
  largest = over_lanes(largest, to.shared, thread);
  const Steps steps = steps_of(largest);
  if (own < ROWS) {
    if constexpr (HELD) {
      #pragma unroll
      for (int c = 0; c < CHUNKS; ++c) {
        const int word = c * LANES + lane;
        if (WORDS % LANES == 0 || word < WORDS) store_word(to, row, word, held[c], steps, sum);
      }
    } else {
      #pragma unroll 4
      for (int c = 0; c < CHUNKS; ++c) {
        const int word = c * LANES + lane;
        if (word < WORDS)
          store_word(to, row, word, read_four<LENGTH>(from, 4 * word), steps, sum);
      }
    }
  }
  const int total = SUMS ? over_lanes((int)sum, (int*)to.shared + THREADS / 32, thread) : 0;
  if (lane == 0 && own < ROWS) {
    to.scales[row] = steps.scale;
    if constexpr (SUMS) to.magnitudes[row] = total;
    if constexpr (BIAS_AT > 0) to.scales[BIAS_AT + row] = __ldg(to.bias + row);
  }
}
__device__ __forceinline__ void quantise_rows(
    const float* x, void* values, void* residual, float* scales, int* magnitudes, void* peaks,
    const float* bias, float* shared, int block, int thread) {
  const Arrays to = {x, static_cast<unsigned*>(values), static_cast<unsigned*>(residual), scales,
                     magnitudes, static_cast<unsigned char*>(peaks), bias, shared};
  quantise_row(to, block * (THREADS / LANES) + thread / LANES, thread);
}
"""


@dataclass(frozen=True)
class RowsQuantised:
    """A float32 matrix whose rows get a scale each, and what becomes of it.

    rows, length: of the matrix; words: of four values that a row takes, zeros behind its end;
    most: the largest integer; layout: where the values of a packed matrix lie, None for rows one
    behind the other; residual: whether it is written too; peaks: of a row if there are lists, for
    which sums of magnitudes and the largest of every 16 neighbours are written, else 0; bias_at:
    where among the scales a bias is copied to, 0 for none; lanes: threads that share a row.
    """

    rows: int
    length: int
    words: int
    most: int
    layout: WeightLayout | None
    residual: bool
    peaks: int
    bias_at: int
    lanes: int

    def kernel(self, parameters: Sequence[TensorSpec | None], target: Target) -> PrimFunc:
        """Parameters x, bias, values, residual, scale, sums, peaks: those that are not None."""
        threads = max(self.lanes, _THREADS)
        layout = self.layout or WeightLayout(16, 16, 1, 0, False)
        sizes = {
            **layout.sizes(), "MOST": self.most, "ROWS": self.rows, "LENGTH": self.length,
            "WORDS": self.words, "LANES": self.lanes, "THREADS": threads,
            "HELD": blocks_for(self.words, self.lanes) <= _HELD, "SUMS": self.peaks > 0,
            "PEAKS": self.peaks, "PACKED": self.layout is not None, "RESIDUAL": self.residual,
            "BIAS_AT": self.bias_at,
        }  # fmt: skip
        functions = DeviceNamespace("quantise_rows", PACKED_AT + QUANTISATION + _SOURCE, {}, sizes)

        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            given = iter(pointers)
            x, bias, *rest = [next(given) if spec else 0 for spec in parameters]
            shared = builder.alloc_buffer((2 * threads // 32,), "float32", scope="shared").data
            call(functions.function("quantise_rows"), x, *rest, bias, shared, block, thread)

        given = [spec for spec in parameters if spec]
        return thread_kernel(given, blocks_for(self.rows, threads // self.lanes), threads, target,
                             body)  # fmt: skip
