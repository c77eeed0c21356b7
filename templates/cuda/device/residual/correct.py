"""The result of a product and of its corrections: tiles of y, each written once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.add_lists import ADD_LISTS
from autoq.templates.cuda.device.residual.read_sums import READ_SUMS
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_WARPS = 8
COLUMNS = 128
"""Columns of a tile: eight lanes gather the 128 bytes of an entry of a row, 16 each."""

_SOURCE = (
    READ_SUMS
    + ADD_LISTS
    + r"""
constexpr int TOGETHER = 8;
__device__ __forceinline__ void add_product(const int* product, int (&sums)[4], int column) {
  const int4 q = read_sums<true>(product, column);
  sums[0] += q.x, sums[1] += q.y, sums[2] += q.z, sums[3] += q.w;
}
__device__ __forceinline__ void write_row(
    float* y, int4 p, const int (&sums)[4], float row_scale, const float (&scale)[4],
    const float (&bias)[4], int column) {
  const int whole[4] = {p.x, p.y, p.z, p.w};
  float value[4];
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    const float unit = 1.f / (2 * MOST);
    const float all = __fadd_rn((float)whole[c], __fmul_rn((float)sums[c], unit));
    value[c] = __fmul_rn(__fmul_rn(all, scale[c]), row_scale);
    if constexpr (BIAS) value[c] = __fadd_rn(value[c], bias[c]);
  }
  if constexpr (N % 4 == 0) {
    if (column < N)
      __stcs(reinterpret_cast<float4*>(y + column),
             make_float4(value[0], value[1], value[2], value[3]));
  } else {
    #pragma unroll
    for (int c = 0; c < 4; ++c)
      if (column + c < N) y[column + c] = value[c];
  }
}
__device__ __forceinline__ void correct(
    const int* sums, const int* by_a, const int* by_b, const float* rows, const float* columns,
    const float* bias, const void* residual_b, const void* residual_a, const unsigned* entries_of_a,
    const int* rows_of_a, const unsigned* entries_of_b, const int* columns_of_b, const int* whole,
    float* y, int* tile, int block, int thread) {
  const int band = block / (GROUP * TILES_M), within = block - band * (GROUP * TILES_M);
  const int beside = min(GROUP, TILES_N - band * GROUP);
  const int top = within / beside * TILE_ROWS, left = (band * GROUP + within % beside) * 128;
  const int lane = thread % 32, column = left + 4 * lane;
  const bool whole_a = !LISTS || __ldg(whole), whole_b = !LISTS || __ldg(whole + 1);
  const int own_rows = thread / 32 * OWN_ROWS, first = top + own_rows;
  if constexpr (LISTS)
    add_lists(sums, static_cast<const unsigned char*>(residual_b),
              static_cast<const unsigned char*>(residual_a), entries_of_a, rows_of_a, entries_of_b,
              columns_of_b, whole_a, whole_b, tile, top, left, thread);
  float scale[4], more[4];
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    scale[c] = column + c < N ? __ldg(columns + column + c) : 0.f;
    more[c] = BIAS && column + c < N ? __ldg(bias + column + c) : 0.f;
  }
  const float row_scales = lane < OWN_ROWS && first + lane < M ? __ldg(rows + first + lane) : 0.f;
  // A warp's rows are neighbours, and sums of several are asked for at a time.
  constexpr int ROWS = OWN_ROWS < TOGETHER ? OWN_ROWS : TOGETHER;
  for (int start = 0; start < OWN_ROWS; start += ROWS) {
    int4 p[ROWS];
    #pragma unroll
    for (int i = 0; i < ROWS; ++i)
      if (first + start + i < M)
        p[i] = read_sums<true>(sums + (size_t)(first + start + i) * N, column);
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const float row_scale = __shfl_sync(0xffffffffu, row_scales, start + i);
      if (first + start + i >= M) continue;
      const size_t at = (size_t)(first + start + i) * N;
      int added[4] = {};
      if (whole_b) add_product(by_b + at, added, column);
      if (whole_a) add_product(by_a + at, added, column);
      if (!(whole_a && whole_b)) {
        const int4 q = *reinterpret_cast<const int4*>(
            tile + place(own_rows + start + i, 4 * lane));
        added[0] += q.x, added[1] += q.y, added[2] += q.z, added[3] += q.w;
      }
      write_row(y + at, p[i], added, row_scale, scale, more, column);
    }
  }
}
"""
)


@dataclass(frozen=True)
class Correction:
    """How y [m, n] is put together.

    most: the largest integer; lists: whether sides may take part by lists; bias: whether it has
    one; pitch_a, pitch_b: bytes of a row of the residuals that lists gather; tile_rows: of a tile;
    group: tiles side by side that run before those below them, so that what they gather stays in
    the L2.
    """

    m: int
    n: int
    most: int
    lists: bool
    bias: bool
    pitch_a: int
    pitch_b: int
    tile_rows: int
    group: int

    @property
    def smem_bytes(self) -> int:
        """Shared memory of a block."""
        return 4 * self.tile_rows * COLUMNS if self.lists else 0

    def kernel(self, parameters: Sequence[TensorSpec | None], target: Target) -> PrimFunc:
        """Parameters in the order of `correct`, those that are not None."""
        tiles_m, tiles_n = blocks_for(self.m, self.tile_rows), blocks_for(self.n, COLUMNS)
        sizes = {
            "M": self.m, "N": self.n, "MOST": self.most, "LISTS": self.lists, "BIAS": self.bias,
            "PITCH_A": self.pitch_a, "PITCH_B": self.pitch_b, "TILE_ROWS": self.tile_rows,
            "GROUP": self.group, "TILES_M": tiles_m, "TILES_N": tiles_n, "WARPS": _WARPS,
        }  # fmt: skip
        functions = DeviceNamespace("correct", _SOURCE, {}, sizes)

        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            given = iter(pointers)
            taken = [next(given) if spec else 0 for spec in parameters]
            tile: Any = 0
            if self.lists:
                words = (self.smem_bytes // 4,)
                tile = builder.alloc_buffer(words, "int32", scope="shared.dyn", align=128).data
            call(functions.function("correct"), *taken, tile, block, thread)

        given = [spec for spec in parameters if spec]
        return thread_kernel(given, tiles_m * tiles_n, 32 * _WARPS, target, body)
