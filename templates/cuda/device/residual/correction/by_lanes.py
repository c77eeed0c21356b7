"""The result of a product and of corrections by lists: panels of y, each value written once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.correction.add_lists import ADD_LISTS
from autoq.templates.cuda.device.residual.correction.hold_panel import HOLD_PANEL
from autoq.templates.cuda.device.residual.correction.panel import Panel
from autoq.templates.cuda.device.residual.correction.write_row import WRITE_ROW
from autoq.templates.cuda.device.residual.read_sums import READ_SUMS
from autoq.templates.cuda.device.residual.turn_words import TURN_WORDS
from autoq.templates.cuda.device.residual.turned import TURNED_AT, turned_sizes
from autoq.templates.target import Target

_SOURCE = (
    READ_SUMS
    + WRITE_ROW
    + TURN_WORDS
    + TURNED_AT
    + ADD_LISTS
    + HOLD_PANEL
    + r"""
constexpr int ACROSS = COLUMNS / 4, AT_ONCE = 32 / ACROSS;
constexpr int READS = ROWS / AT_ONCE;
__device__ __forceinline__ void read_lists(
    const int* lists, bool listed, int column, int2 (&found)[STEPS]) {
  #pragma unroll
  for (int s = 0; s < STEPS; ++s) {
    found[s] = make_int2(0, 0);
    if (listed && column + 32 * s < N)
      found[s] = __ldg(reinterpret_cast<const int2*>(lists) + column + 32 * s);
  }
}
// Whole products, where a side takes part by one: what a lane has of the tile.
__device__ __forceinline__ void add_products(
    const int* by_a, const int* by_b, int* sums, int row, int column, bool begun) {
  #pragma unroll 1
  for (int i = 0; i < READS; ++i) {
    const size_t at = (size_t)i * AT_ONCE * N;
    int4* own = reinterpret_cast<int4*>(sums + i * AT_ONCE * COLUMNS);
    int added[4] = {};
    if (row + i * AT_ONCE < M) {
      if (by_a) add_product(by_a + at, added, column);
      if (by_b) add_product(by_b + at, added, column);
    }
    int4 all = begun ? *own : make_int4(0, 0, 0, 0);
    all.x += added[0], all.y += added[1], all.z += added[2], all.w += added[3];
    *own = all;
  }
}
__device__ __forceinline__ void correct(
    const int* sums, const int* by_a, const int* by_b, const float* rows, const float* columns,
    const float* bias, const void* residual_b, const void* residual_a, const void* entries_of_a,
    const int* rows_of_a, const void* entries_of_b, const int* columns_of_b, const int* whole,
    float* y, unsigned char* shared, int block, int thread) {
  const int top = panel_of(block) * ROWS, part = block / PANELS;
  const int lane = thread % 32, warp = thread / 32, end = min(N, (part + 1) * WIDTH);
  const bool listed_a = !__ldg(whole), listed_b = !__ldg(whole + 1);
  const unsigned char* residuals = static_cast<const unsigned char*>(residual_a) + top;
  const unsigned char* others = static_cast<const unsigned char*>(residual_b);
  const uint4* of_a = static_cast<const uint4*>(entries_of_a);
  const uint4* of_b = static_cast<const uint4*>(entries_of_b);
  int* tile = reinterpret_cast<int*>(shared + PANEL_BYTES) + warp * (ROWS * COLUMNS);
  int2 rows_listed[TURNS];
  #pragma unroll
  for (int t = 0; t < TURNS; ++t) {
    const int row = top + t * BESIDE + lane / LANES;
    rows_listed[t] = make_int2(0, 0);
    if (listed_a && row < M)
      rows_listed[t] = __ldg(reinterpret_cast<const int2*>(rows_of_a) + row);
  }
  const float row_scales = lane < ROWS && top + lane < M ? __ldg(rows + top + lane) : 0.f;
  if constexpr (HELD) {
    if (listed_b) hold_panel(static_cast<const unsigned*>(residual_a), shared, top, thread);
    __syncthreads();
    if (listed_b && block + AHEAD < BLOCKS)
      prefetch_panel(static_cast<const unsigned*>(residual_a), block + AHEAD, thread);
    residuals = shared;
  }
  int2 listed[STEPS];
  read_lists(columns_of_b, listed_b, part * WIDTH + warp * COLUMNS + lane, listed);
  for (int left = part * WIDTH + warp * COLUMNS; left < end; left += WARPS * COLUMNS) {
    {
      const int row = top + lane / (COLUMNS / 32), column = left + lane % (COLUMNS / 32) * 32;
      if (row < M && column < N) prefetch(sums + (size_t)row * N + column);
    }
    uint4 first[STEPS];
    const unsigned char* own = others + turned_at(0, min(left + lane % LANES * 16, N - 1) & ~15);
    Four<4> found[TURNS];
    #pragma unroll
    for (int t = 0; t < TURNS; ++t)
      found[t] = gather<4, false>(own, PIECE, read_four(of_a, rows_listed[t], 0));
    if (listed_b) {
      #pragma unroll
      for (int s = 0; s < STEPS; ++s) first[s] = read_four(of_b, listed[s], 0);
      add_columns(residuals, HELD ? ROWS : PITCH_A, of_b, listed, first, tile, lane);
      __syncwarp();
    }
    if (listed_a) {
      add_rows(own, of_a, rows_listed, found, listed_b, tile, lane);
      __syncwarp();
    }
    const int first_row = top + lane / ACROSS, column = left + 4 * (lane % ACROSS);
    int* own_sums = tile + place(lane / ACROSS, 4 * (lane % ACROSS));
    const size_t at = (size_t)first_row * N;
    if (!listed_a || !listed_b)
      add_products(listed_a ? nullptr : by_a + at, listed_b ? nullptr : by_b + at, own_sums,
                   first_row, column, listed_a || listed_b);
    read_lists(columns_of_b, listed_b, left + WARPS * COLUMNS + lane, listed);  // of the next tile
    float scale[4], more[4] = {};
    read_columns(columns, column, scale);
    if constexpr (BIAS) read_columns(bias, column, more);
    // Fewer at a time where rows may lie beyond the last: which do takes registers too.
    constexpr bool EVEN = M % ROWS == 0;
    constexpr int READ = EVEN ? READS : READS / 4;
    #pragma unroll 1
    for (int start = 0; start < READS; start += READ) {
      int4 p[READ];
      #pragma unroll
      for (int i = 0; i < READ; ++i)
        if (EVEN || first_row + (start + i) * AT_ONCE < M)
          p[i] = read_sums<true>(sums + at + (size_t)(start + i) * AT_ONCE * N, column);
      #pragma unroll
      for (int i = 0; i < READ; ++i) {
        const int below = (start + i) * AT_ONCE;
        const float row_scale = __shfl_sync(0xffffffffu, row_scales, below + lane / ACROSS);
        const int4 q = *reinterpret_cast<const int4*>(own_sums + below * COLUMNS);
        const int added[4] = {q.x, q.y, q.z, q.w};
        if (EVEN || first_row + below < M)
          write_row(y + at + (size_t)below * N, p[i], added, row_scale, scale, more, column);
      }
    }
    __syncwarp();
  }
}
"""
)


@dataclass(frozen=True)
class Correction:
    """How y [m, n] is put together.

    k: values of a row, of residuals; most: the largest integer; bias: whether it has one; words: of
    four values of a row of a's residuals; pitch_a: bytes of a row of these where they have k as
    rows; panel: what a block takes; parts: blocks side by side that have the same rows; last_first:
    whether the last panels come first.
    """

    m: int
    n: int
    k: int
    most: int
    bias: bool
    words: int
    pitch_a: int
    panel: Panel
    parts: int
    last_first: bool

    def kernel(self, parameters: Sequence[TensorSpec | None], target: Target) -> PrimFunc:
        """Parameters in the order of `correct`, those that are not None.

        Residuals of a are in rows where the panel is held, else they have k as rows.
        """
        panel, columns = self.panel, self.panel.columns
        width = blocks_for(blocks_for(self.n, self.parts), columns) * columns
        parts, panels = blocks_for(self.n, width), blocks_for(self.m, panel.rows)
        sizes = {
            "M": self.m, "N": self.n, "MOST": self.most, "BIAS": self.bias,
            "WORDS_OF_ROW": self.words, "PITCH_A": self.pitch_a, **turned_sizes(self.k),
            "ROWS": panel.rows, "COLUMNS": columns, "WARPS": panel.warps, "HELD": panel.held,
            "PANEL_BYTES": panel.held_bytes, "PANELS": panels, "WIDTH": width,
            "WHOLE": self.n % columns == 0, "BLOCKS": panels * parts,
            "AHEAD": target.units * panel.together, "LAST_FIRST": self.last_first,
        }  # fmt: skip
        functions = DeviceNamespace("correct", _SOURCE, {}, sizes)

        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            given = iter(pointers)
            taken = [next(given) if spec else 0 for spec in parameters]
            size = (panel.smem_bytes,)
            shared = builder.alloc_buffer(size, "uint8", scope="shared.dyn", align=128).data
            call(functions.function("correct"), *taken, shared, block, thread)

        given = [spec for spec in parameters if spec]
        return thread_kernel(
            given, panels * parts, 32 * panel.warps, target, body, together=panel.together
        )
