"""How large a product's rows and columns are, weighed by scales, in a pass over it.

For products whose kernel does not say it as it writes them.

Sums are of double precision and always added in the same order: those of a block here, those of
all blocks by whoever asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.parts_of_sums import PartsOfSums
from autoq.templates.cuda.device.residual.read_sums import READ_SUMS
from autoq.templates.target import Target

_THREADS = 128
_PANEL = 4 * _THREADS
"""Columns of a block, four for each thread."""

_SOURCE = (
    READ_SUMS
    + r"""
__device__ __forceinline__ double magnitude(int x) {
  return (double)(x < 0 ? 0u - (unsigned)x : (unsigned)x);
}
// Of four numbers of each lane: eight lanes get the sum of one of them, which is returned last.
__device__ __forceinline__ double four_over_warp(double (&x)[4], int lane, int& which) {
  const bool upper = lane & 16, odd = lane & 8;
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    const double kept = upper ? x[2 + i] : x[i], sent = upper ? x[i] : x[2 + i];
    x[i] = kept + __shfl_xor_sync(0xffffffffu, sent, 16);
  }
  const double kept = odd ? x[1] : x[0], sent = odd ? x[0] : x[1];
  double sum = kept + __shfl_xor_sync(0xffffffffu, sent, 8);
  #pragma unroll
  for (int apart = 4; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  which = lane / 8;
  return sum;
}
__device__ __forceinline__ void weigh(
    const int* product, const float* rows, const float* columns, double* row_parts,
    double* column_parts, double* shared, int block, int thread) {
  // The last rows first, which the L2 still holds.
  const int panel = block % PANELS, part = PARTS - 1 - block / PANELS, first = part * PART;
  const int column = panel * (4 * 32 * WARPS) + 4 * thread, warp = thread / 32;
  double scale[4], weighed[4] = {};
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    const bool inside = column + c < N;
    scale[c] = inside ? (double)__ldg(columns + column + c) : 0.;
  }
  int4 next[TOGETHER];
  for (int i = -TOGETHER; i < PART; i += TOGETHER) {
    int4 p[TOGETHER];
    double sums[TOGETHER];
    #pragma unroll
    for (int t = 0; t < TOGETHER; ++t) {  // of the next turn, again the last row behind the end
      p[t] = next[t];
      const int row = min(first + i + TOGETHER + t, M - 1);
      if (i + TOGETHER < PART) next[t] = read_sums<false>(product + (size_t)row * N, column);
    }
    if (i < 0) continue;
    #pragma unroll
    for (int t = 0; t < TOGETHER; ++t) {
      const int row = first + i + t;
      const double a = row < M ? (double)__ldg(rows + row) : 0.;
      const double x = magnitude(p[t].x), y = magnitude(p[t].y);
      const double z = magnitude(p[t].z), w = magnitude(p[t].w);
      weighed[0] += x * a, weighed[1] += y * a, weighed[2] += z * a, weighed[3] += w * a;
      sums[t] = x * scale[0] + y * scale[1] + (z * scale[2] + w * scale[3]);
    }
    int which;
    const double sum = four_over_warp(sums, thread % 32, which);
    if (thread % 8 == 0) shared[(i + which) * WARPS + warp] = sum;
  }
  #pragma unroll
  for (int c = 0; c < 4; ++c)
    if (column + c < N) column_parts[(size_t)part * N + column + c] = weighed[c];
  __syncthreads();
  for (int i = thread; i < PART && first + i < M; i += 32 * WARPS) {
    double sum = shared[i * WARPS];
    #pragma unroll
    for (int w = 1; w < WARPS; ++w) sum += shared[i * WARPS + w];
    row_parts[(size_t)panel * M + first + i] = sum;
  }
}
"""
)


@dataclass(frozen=True)
class WeightedSums:
    """The pass over a product int32 [m, n].

    part: rows of a block, a multiple of 4.
    """

    m: int
    n: int
    part: int

    @property
    def panels(self) -> int:
        """Blocks side by side."""
        return blocks_for(self.n, _PANEL)

    @property
    def parts(self) -> int:
        """Blocks one below the other."""
        return blocks_for(self.m, self.part)

    @property
    def blocks(self) -> int:
        """Blocks of the pass."""
        return self.panels * self.parts

    @property
    def found(self) -> PartsOfSums:
        """Sums of rows in each panel and of columns in each part."""
        return PartsOfSums(self.m, self.n, self.panels, self.parts)

    def kernel(self, given: Sequence[TensorSpec], target: Target) -> PrimFunc:
        """Parameters: the product, scales of its rows and columns, and arrays of `found`."""
        warps = _THREADS // 32
        sizes = {"M": self.m, "N": self.n, "PANELS": self.panels, "PARTS": self.parts,
                 "PART": self.part, "WARPS": warps, "TOGETHER": 4,
                 "WHOLE": self.n % _PANEL == 0}  # fmt: skip
        functions = DeviceNamespace("weighted_sums", _SOURCE, {}, sizes)

        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            shared = builder.alloc_buffer((self.part * warps,), "float64", scope="shared").data
            call(functions.function("weigh"), *pointers, shared, block, thread)

        parameters = [*given, *self.found.arrays]
        return thread_kernel(parameters, self.blocks, _THREADS, target, body)
