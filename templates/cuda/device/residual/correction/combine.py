"""The result of three whole products: each sum read once, y written once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.correction.write_row import WRITE_ROW
from autoq.templates.cuda.device.residual.read_sums import READ_SUMS
from autoq.templates.target import Target

_WARPS, _COLUMNS, _ROWS = 8, 128, 8

_SOURCE = (
    READ_SUMS
    + WRITE_ROW
    + r"""
// A warp has rows of 128 columns, whose sums are asked for together.
__device__ __forceinline__ void combine(
    const int* sums, const int* by_a, const int* by_b, const float* rows, const float* columns,
    const float* bias, float* y, int block, int thread) {
  const int across = (N + COLUMNS - 1) / COLUMNS, lane = thread % 32;
  const int first = (block / across * WARPS + thread / 32) * ROWS;
  const int column = block % across * COLUMNS + 4 * lane;
  float scale[4], more[4] = {};
  read_columns(columns, column, scale);
  if constexpr (BIAS) read_columns(bias, column, more);
  const float row_scales = lane < ROWS && first + lane < M ? __ldg(rows + first + lane) : 0.f;
  int4 p[ROWS];
  #pragma unroll
  for (int i = 0; i < ROWS; ++i)
    if (first + i < M) p[i] = read_sums<true>(sums + (size_t)(first + i) * N, column);
  #pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    const float row_scale = __shfl_sync(0xffffffffu, row_scales, i);
    if (first + i >= M) continue;
    const size_t at = (size_t)(first + i) * N;
    int added[4] = {};
    add_product(by_b + at, added, column);
    add_product(by_a + at, added, column);
    write_row(y + at, p[i], added, row_scale, scale, more, column);
  }
}
"""
)


@dataclass(frozen=True)
class Combination:
    """How y [m, n] is put together of products; most: the largest integer; bias: whether added."""

    m: int
    n: int
    most: int
    bias: bool

    def kernel(self, parameters: Sequence[TensorSpec | None], target: Target) -> PrimFunc:
        """Parameters in the order of `combine`, those that are not None."""
        sizes = {"M": self.m, "N": self.n, "MOST": self.most, "BIAS": self.bias,
                 "WHOLE": self.n % _COLUMNS == 0,
                 "WARPS": _WARPS, "COLUMNS": _COLUMNS, "ROWS": _ROWS}  # fmt: skip
        functions = DeviceNamespace("combine", _SOURCE, {}, sizes)

        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            given = iter(pointers)
            taken = [next(given) if spec else 0 for spec in parameters]
            call(functions.function("combine"), *taken, block, thread)

        given = [spec for spec in parameters if spec]
        blocks = blocks_for(self.m, _WARPS * _ROWS) * blocks_for(self.n, _COLUMNS)
        return thread_kernel(given, blocks, 32 * _WARPS, target, body)
