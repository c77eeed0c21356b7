"""Columns of float32 as integers in packed weights: the largest value of each first, then all.

A thread takes four neighbouring columns, sixteen values of each at a time, which lie together in
packed weights, with those of the next three groups of eight lanes behind them.
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
from autoq.templates.cuda.device.residual.quantise.quantisation import QUANTISATION
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.target import Target

_WARPS = 8
_PANEL = 128
"""Columns of a block: four for each lane."""
PART = 256
"""Rows of a block."""

_LARGEST = r"""
constexpr int TOGETHER = 8;
__device__ __forceinline__ void find_largest(
    const float* x, float* parts, int* magnitudes, float* shared, int block, int thread) {
  const int panel = block % PANELS, part = block / PANELS, lane = thread % 32, warp = thread / 32;
  const int column = panel * 128 + 4 * lane, first = part * PART + warp * (PART / WARPS);
  float4 most = make_float4(0.f, 0.f, 0.f, 0.f);
  #pragma unroll
  for (int i = 0; i < PART / WARPS; i += TOGETHER) {
    float4 v[TOGETHER];
    #pragma unroll
    for (int t = 0; t < TOGETHER; ++t) {  // again the last row behind the end
      const int row = min(first + i + t, LENGTH - 1);
      v[t] = read_four<COLUMNS>(x + (size_t)row * COLUMNS, column);
    }
    #pragma unroll
    for (int t = 0; t < TOGETHER; ++t) {
      most.x = fmaxf(most.x, fabsf(v[t].x)), most.y = fmaxf(most.y, fabsf(v[t].y));
      most.z = fmaxf(most.z, fabsf(v[t].z)), most.w = fmaxf(most.w, fabsf(v[t].w));
    }
  }
  reinterpret_cast<float4*>(shared)[thread] = most;
  __syncthreads();
  if (thread >= 128) return;
  float largest = shared[thread];
  #pragma unroll
  for (int i = 1; i < WARPS; ++i) largest = fmaxf(largest, shared[i * 128 + thread]);
  const int own = panel * 128 + thread;
  parts[(size_t)part * (PANELS * 128) + own] = largest;
  if constexpr (SUMS) {
    if (part == 0 && own < COLUMNS) magnitudes[own] = 0;
  }
}
"""

_SOURCE = r"""
__device__ __forceinline__ void quantise_columns(
    const float* x, const float* parts, void* values, void* residuals_of, float* scales,
    int* magnitudes, unsigned char* peaks, const float* bias, int block, int thread) {
  const int panel = block % PANELS, part = block / PANELS, lane = thread % 32, warp = thread / 32;
  const int column = panel * 128 + warp % 4 * 32 + lane % 8 * 4, below = warp / 4 * 4 + lane / 8;
  float4 largest = make_float4(0.f, 0.f, 0.f, 0.f);
  #pragma unroll 8
  for (int i = 0; i < PARTS; ++i) {
    const float4 v = __ldg(reinterpret_cast<const float4*>(
        parts + (size_t)i * (PANELS * 128) + column));
    largest.x = fmaxf(largest.x, v.x), largest.y = fmaxf(largest.y, v.y);
    largest.z = fmaxf(largest.z, v.z), largest.w = fmaxf(largest.w, v.w);
  }
  const Steps steps[4] = {steps_of(largest.x), steps_of(largest.y), steps_of(largest.z),
                          steps_of(largest.w)};
  if (part == 0 && below == 0) {
    #pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (column + c >= COLUMNS) continue;
      scales[column + c] = steps[c].scale;
      if constexpr (BIAS_AT > 0) scales[BIAS_AT + column + c] = __ldg(bias + column + c);
    }
  }
  int sums[4] = {};
  #pragma unroll 1
  for (int chunk = below; chunk < PART / 16; chunk += 8) {
    const int first = part * PART + 16 * chunk;
    if (first >= LENGTH) break;
    unsigned words[4][4], rest[4][4];
    float peak[4] = {};
    #pragma unroll
    for (int w = 0; w < 4; ++w) {
      float4 v[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = first + 4 * w + i;
        v[i] = row < LENGTH ? read_four<COLUMNS>(x + (size_t)row * COLUMNS, column)
                            : make_float4(0.f, 0.f, 0.f, 0.f);
      }
      float finer[4][4];
      #pragma unroll
      for (int c = 0; c < 4; ++c) {
        float q[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float one = c == 0 ? v[i].x : c == 1 ? v[i].y : c == 2 ? v[i].z : v[i].w;
          q[i] = quantised(one, steps[c]);
          if constexpr (SUMS) {
            sums[c] += (int)magnitude(q[i]);
            peak[c] = fmaxf(peak[c], magnitude(q[i]));
          }
          finer[c][i] = RESIDUAL ? residual(one, q[i], steps[c]) : 0.f;
        }
        words[c][w] = word_of(q[0], q[1], q[2], q[3]);
        rest[c][w] = word_of(finer[c][0], finer[c][1], finer[c][2], finer[c][3]);
      }
    }
    #pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (column + c >= COLUMNS) continue;
      if constexpr (SUMS) peaks[(size_t)(column + c) * PEAKS + first / 16] = peak_of(peak[c]);
      const size_t at = packed_at(column + c, first) / 16;
      static_cast<uint4*>(values)[at] =
          make_uint4(words[c][0], words[c][1], words[c][2], words[c][3]);
      if constexpr (RESIDUAL) {
        static_cast<uint4*>(residuals_of)[at] =
            make_uint4(rest[c][0], rest[c][1], rest[c][2], rest[c][3]);
      }
    }
  }
  if constexpr (SUMS) {
    #pragma unroll
    for (int c = 0; c < 4; ++c) {
      sums[c] += __shfl_xor_sync(0xffffffffu, sums[c], 8);
      sums[c] += __shfl_xor_sync(0xffffffffu, sums[c], 16);
      if (lane < 8 && column + c < COLUMNS) atomicAdd(magnitudes + column + c, sums[c]);
    }
  }
}
"""


@dataclass(frozen=True)
class ColumnsQuantised:
    """A float32 matrix [length, columns] whose columns get a scale each.

    most: the largest integer; layout: where values lie; residual: whether residuals, packed
    likewise, are written too; peaks: of a column if there are lists, for which sums of magnitudes
    and the largest of every 16 neighbours are written, else 0; bias_at: where among the scales a
    bias is copied to, 0 for none.
    """

    columns: int
    length: int
    most: int
    layout: WeightLayout
    residual: bool
    peaks: int
    bias_at: int

    @property
    def panels(self) -> int:
        """Blocks side by side."""
        return blocks_for(self.columns, _PANEL)

    @property
    def parts(self) -> TensorSpec:
        """The largest value of each column in so many rows."""
        shape = (blocks_for(self.length, PART), self.panels * _PANEL)
        return TensorSpec("largest_parts", shape, "float32")

    def find_largest(
        self, x: TensorSpec, magnitudes: TensorSpec | None, target: Target
    ) -> PrimFunc:
        """Parameters x, parts and the sums, which are set to zero."""

        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            values, parts, *sums = pointers
            shared = builder.alloc_buffer((128 * _WARPS,), "float32", scope="shared", align=16)
            call(self._functions(_LARGEST).function("find_largest"), values, parts,
                 *(sums or [0]), shared.data, block, thread)  # fmt: skip

        return self._kernel([x, self.parts, magnitudes], target, body)

    def kernel(self, parameters: Sequence[TensorSpec | None], target: Target) -> PrimFunc:
        """Parameters x, parts, bias, sums, peaks, values, residual, scale: those not None."""

        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            given = iter(pointers)
            x, parts, bias, sums, peaks, values, residual, scale = [
                next(given) if spec else 0 for spec in parameters
            ]
            call(self._functions(_SOURCE).function("quantise_columns"), x, parts, values, residual,
                 scale, sums, peaks, bias, block, thread)  # fmt: skip

        return self._kernel(parameters, target, body)

    def _kernel(self, parameters: Sequence[TensorSpec | None], target: Target, body: Any) -> Any:
        blocks = self.panels * self.parts.shape[0]
        given = [spec for spec in parameters if spec]
        return thread_kernel(given, blocks, 32 * _WARPS, target, body)

    def sizes(self) -> dict[str, int]:
        """Constants of the source of kernels that quantise columns."""
        return {
            **self.layout.sizes(), "MOST": self.most, "COLUMNS": self.columns,
            "LENGTH": self.length, "SUMS": self.peaks > 0, "PEAKS": self.peaks,
            "RESIDUAL": self.residual, "BIAS_AT": self.bias_at,
        }  # fmt: skip

    def _functions(self, source: str) -> DeviceNamespace:
        sizes = {"PANELS": self.panels, "PART": PART, "WARPS": _WARPS,
                 "PARTS": self.parts.shape[0], **self.sizes()}  # fmt: skip
        return DeviceNamespace("quantise_columns", PACKED_AT + QUANTISATION + source, {}, sizes)
