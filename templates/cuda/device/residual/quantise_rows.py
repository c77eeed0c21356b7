"""Rows of float32 as integers: a few lanes hold a row, find its largest value and store it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.quantisation import QUANTISATION
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

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
    if (thread % 32 == 0) shared[thread / 32] = x;
    __syncthreads();
    x = shared[0];
    #pragma unroll
    for (int warp = 1; warp < LANES / 32; ++warp) x = join(x, shared[warp]);
  }
  return x;
}
__device__ __forceinline__ void store_word(
    unsigned* values, unsigned* residuals_of, int row, int word, float4 x, const Steps& steps,
    float& sum) {
  const float4 q = quantised(x, steps);
  const size_t at = word_at(row, word);
  values[at] = word_of(q);
  if constexpr (RESIDUAL) residuals_of[at] = word_of(residuals(x, q, steps));
  if constexpr (SUMS) {
    sum += fabsf(q.x - WHOLES) + fabsf(q.y - WHOLES) + fabsf(q.z - WHOLES) + fabsf(q.w - WHOLES);
  }
}
__device__ __forceinline__ void quantise_rows(
    const float* x, void* values, void* residuals_of, float* scales, float* inverses,
    int* magnitudes, const float* bias, float* shared, int block, int thread) {
  const int lane = thread % LANES, own = block * (THREADS / LANES) + thread / LANES;
  const int row = min(own, ROWS - 1);
  const float* from = x + (size_t)row * LENGTH;
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
  largest = over_lanes(largest, shared, thread);
  const Steps steps = steps_of(largest);
  unsigned* to = static_cast<unsigned*>(values);
  unsigned* rest = static_cast<unsigned*>(residuals_of);
  if (own < ROWS) {
    if constexpr (HELD) {
      #pragma unroll
      for (int c = 0; c < CHUNKS; ++c) {
        const int word = c * LANES + lane;
        if (WORDS % LANES == 0 || word < WORDS)
          store_word(to, rest, row, word, held[c], steps, sum);
      }
    } else {
      #pragma unroll 4
      for (int c = 0; c < CHUNKS; ++c) {
        const int word = c * LANES + lane;
        if (word < WORDS)
          store_word(to, rest, row, word, read_four<LENGTH>(from, 4 * word), steps, sum);
      }
    }
  }
  const int total = SUMS ? over_lanes((int)sum, (int*)shared + LANES / 32, thread) : 0;
  if (lane == 0 && own < ROWS) {
    scales[row] = steps.scale;
    if constexpr (INVERSES) inverses[row] = steps.inverse;
    if constexpr (SUMS) magnitudes[row] = total;
    if constexpr (BIAS_AT > 0) scales[BIAS_AT + row] = __ldg(bias + row);
  }
}
"""


@dataclass(frozen=True)
class RowsQuantised:
    """A float32 matrix whose rows get a scale each, and what becomes of it.

    rows, length: of the matrix; words: of four values that a row takes, zeros behind its end;
    most: the largest integer; layout: where the values of a packed matrix lie, None for rows one
    behind the other; residual, sums, inverses: whether these are written too; bias_at: where among
    the scales a bias is copied to, 0 for none; lanes: threads that share a row.

    Buffers, in this order, those that are not asked for left out: x, bias, values, residual, scale,
    inverse, sums.
    """

    rows: int
    length: int
    words: int
    most: int
    layout: WeightLayout | None
    residual: bool
    sums: bool
    inverses: bool
    bias_at: int
    lanes: int

    def kernel(self, parameters: Sequence[TensorSpec | None], target: Target) -> PrimFunc:
        """The kernel over these buffers, None for one that is not asked for."""
        threads = self.lanes if self.lanes > 32 else _THREADS
        chunks = blocks_for(self.words, self.lanes)
        layout = self.layout or WeightLayout(16, 16, 1, 0, False)
        sizes = {
            **layout.sizes(), "MOST": self.most, "ROWS": self.rows, "LENGTH": self.length,
            "WORDS": self.words, "LANES": self.lanes, "THREADS": threads,
            "HELD": chunks <= _HELD, "PACKED": self.layout is not None, "SUMS": self.sums,
            "RESIDUAL": self.residual, "INVERSES": self.inverses, "BIAS_AT": self.bias_at,
        }  # fmt: skip
        functions = DeviceNamespace("quantise_rows", PACKED_AT + QUANTISATION + _SOURCE, {}, sizes)

        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            given = iter(pointers)
            x, bias, *rest = [next(given) if spec else 0 for spec in parameters]
            values, residual, scale, inverse, sums = rest
            words = (2 * max(self.lanes // 32, 1),)
            shared = builder.alloc_buffer(words, "float32", scope="shared").data
            call(functions.function("quantise_rows"), x, values, residual, scale, inverse, sums,
                 bias, shared, block, thread)  # fmt: skip

        blocks = blocks_for(self.rows, threads // self.lanes)
        given = [spec for spec in parameters if spec]
        return thread_kernel(given, blocks, threads, target, body)
