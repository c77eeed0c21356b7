"""Columns of float32 as integers in packed weights, read once: clusters hold panels of them.

Blocks of a cluster take parts of the rows of a panel of 16 columns and keep them in registers while
they find the columns' largest values together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.quantisation import QUANTISATION
from autoq.templates.cuda.device.residual.quantise_columns import ColumnsQuantised
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_THREADS = 256
_PANEL = 16
_ROWS = 16 * _THREADS // (_PANEL // 4)
"""Rows of a block: 16 of four columns for each thread."""
_CLUSTERS = (1, 2, 4, 8)
_TOGETHER = 3
"""Blocks of a multiprocessor: some read while others wait for their cluster."""

# Four neighbouring lanes have a row of a panel, 64 bytes, and the eight that follow each other in
# steps of four have 128 neighbouring values of a column.
_SOURCE = r"""
__device__ __forceinline__ void meet_cluster() {
  if constexpr (BLOCKS > 1) {
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
  } else {
    __syncthreads();
  }
}
// A word of the shared memory of another block of the cluster.
__device__ __forceinline__ unsigned read_other(const void* own, int rank) {
  unsigned word;
  const unsigned at = (unsigned)__cvta_generic_to_shared(own);
  asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %1, %2; "
               "ld.shared::cluster.u32 %0, [there]; }"
               : "=r"(word) : "r"(at), "r"(rank) : "memory");
  return word;
}
// Four values of a row; the L2 fetches what the neighbouring panel reads with them.
__device__ __forceinline__ float4 read_beside(const float* row, int at) {
  if constexpr (COLUMNS % 4 == 0) {
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (at < COLUMNS)
      asm volatile("ld.global.nc.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                   : "l"(__cvta_generic_to_global(row + at)));
    return v;
  } else {
    return read_four<COLUMNS>(row, at);
  }
}
__device__ __forceinline__ float of_four(const float4& v, int c) {
  return c == 0 ? v.x : c == 1 ? v.y : c == 2 ? v.z : v.w;
}
// Each thread's four numbers, joined over the threads of a block with the same columns.
template <class T, class J> __device__ __forceinline__ void join_block(
    T (&x)[4], T* parts, T* whole, int thread, J join) {
  #pragma unroll
  for (int apart = 4; apart < 32; apart *= 2) {
    #pragma unroll
    for (int c = 0; c < 4; ++c) x[c] = join(x[c], __shfl_xor_sync(0xffffffffu, x[c], apart));
  }
  if (thread % 32 < 4) {
    #pragma unroll
    for (int c = 0; c < 4; ++c) parts[thread / 32 * 16 + thread % 4 * 4 + c] = x[c];
  }
  __syncthreads();
  if (thread < 16) {
    T all = parts[thread];
    #pragma unroll
    for (int warp = 1; warp < 8; ++warp) all = join(all, parts[warp * 16 + thread]);
    whole[thread] = all;
  }
}
__device__ __forceinline__ void quantise_panels(
    const float* x, void* values, void* residuals_of, float* scales, int* magnitudes,
    unsigned char* peaks, const float* bias, float* shared, int block, int thread) {
  const int rank = block % BLOCKS, panel = block / BLOCKS * 16, column = panel + thread % 4 * 4;
  const int first = (rank * (THREADS / 4) + thread / 4) * 16;
  float *parts = shared, *own = shared + 128, *all = shared + 144;
  int* sums_of = reinterpret_cast<int*>(shared + 176);
  float* kept = shared + 192 + thread;  // what waits for its column, in steps of THREADS
  float4 v[16];
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    v[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    if (first + i < LENGTH) v[i] = read_beside(x + (size_t)(first + i) * COLUMNS, column);
  }
  float most[4] = {};
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    #pragma unroll
    for (int c = 0; c < 4; ++c) most[c] = fmaxf(most[c], fabsf(of_four(v[i], c)));
  }
  if constexpr (SUMS) {
    #pragma unroll
    for (int c = 0; c < 4; ++c) kept[c * THREADS] = most[c];
  }
  join_block(most, parts, own, thread, [](float a, float b) { return fmaxf(a, b); });
  meet_cluster();
  if (thread < 16) {
    float largest = own[thread];
    if constexpr (BLOCKS > 1) {
      #pragma unroll
      for (int r = 0; r < BLOCKS; ++r)
        largest = fmaxf(largest, __uint_as_float(read_other(own + thread, r)));
    }
    const Steps steps = steps_of(largest);
    all[thread] = steps.scale, all[16 + thread] = steps.inverse;
    if (rank == 0 && panel + thread < COLUMNS) {
      scales[panel + thread] = steps.scale;
      if constexpr (BIAS_AT > 0) scales[BIAS_AT + panel + thread] = __ldg(bias + panel + thread);
    }
  }
  __syncthreads();
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    float sum = 0.f;
    const Steps steps = {all[thread % 4 * 4 + c], all[16 + thread % 4 * 4 + c]};
    unsigned words[4], rest[4];
    #pragma unroll
    for (int w = 0; w < 4; ++w) {
      float q[4], finer[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float one = of_four(v[4 * w + i], c);
        q[i] = quantised(one, steps);
        if constexpr (SUMS) sum += magnitude(q[i]);
        finer[i] = RESIDUAL ? residual(one, q[i], steps) : 0.f;
      }
      words[w] = word_of(q[0], q[1], q[2], q[3]);
      rest[w] = word_of(finer[0], finer[1], finer[2], finer[3]);
    }
    const float peak = SUMS ? magnitude(quantised(kept[c * THREADS], steps)) : 0.f;
    if constexpr (SUMS) kept[c * THREADS] = sum;
    if (first >= LENGTH || column + c >= COLUMNS) continue;
    const size_t at = packed_at(column + c, first) / 16;
    if constexpr (SUMS) peaks[(size_t)(column + c) * PEAKS + first / 16] = peak_of(peak);
    static_cast<uint4*>(values)[at] = make_uint4(words[0], words[1], words[2], words[3]);
    if constexpr (RESIDUAL)
      static_cast<uint4*>(residuals_of)[at] = make_uint4(rest[0], rest[1], rest[2], rest[3]);
  }
  if constexpr (SUMS) {
    int sums[4];
    #pragma unroll
    for (int c = 0; c < 4; ++c) sums[c] = (int)kept[c * THREADS];
    join_block(sums, reinterpret_cast<int*>(parts), sums_of, thread,
               [](int a, int b) { return a + b; });
    meet_cluster();
    if (rank == 0 && thread < 16 && panel + thread < COLUMNS) {
      int sum = sums_of[thread];
      #pragma unroll
      for (int r = 1; r < BLOCKS; ++r) sum += (int)read_other(sums_of + thread, r);
      magnitudes[panel + thread] = sum;
    }
  }
  if constexpr (BLOCKS > 1) meet_cluster();  // nobody leaves whose memory another one reads
}
"""


def blocks_of_panel(length: int, target: Target) -> int | None:
    """Blocks that a panel of so many rows takes; None where no cluster holds it."""
    if target.compute_capability < 90:
        return None
    return next((blocks for blocks in _CLUSTERS if blocks * _ROWS >= length), None)


def panels_kernel(
    columns: ColumnsQuantised, blocks: int, parameters: Sequence[TensorSpec | None], target: Target
) -> PrimFunc:
    """Parameters x, bias, values, residual, scale, sums, peaks: those that are not None.

    blocks: as `blocks_of_panel` says.
    """
    sizes = {**columns.sizes(), "THREADS": _THREADS, "BLOCKS": blocks}
    functions = DeviceNamespace("quantise_panels", PACKED_AT + QUANTISATION + _SOURCE, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        given = iter(pointers)
        x, bias, *written = [next(given) if s else 0 for s in parameters]
        shared = builder.alloc_buffer((192 + 4 * _THREADS,), "float32", scope="shared").data
        call(functions.function("quantise_panels"), x, *written, bias, shared, block, thread)

    panels = blocks_for(columns.columns, _PANEL)
    given = [spec for spec in parameters if spec]
    return thread_kernel(
        given, panels * blocks, _THREADS, target, body, cluster=blocks, together=_TOGETHER
    )
