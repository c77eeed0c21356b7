"""The result of a product and of corrections by lists of bands, which tensor cores multiply.

A block holds residuals of 16 rows, all of k, and a warp takes tiles of these rows and 64 columns.
The entries of a band of 16 columns are multiplied with what they gather from the block's panel, and
the entries of the block's own band with what comes from memory, 32 of either at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.occupancy import shared_memory_fits
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.bands import BAND
from autoq.templates.cuda.device.residual.correction.band_steps import (
    BAND_STEPS,
    COLUMNS,
    OWN_BYTES,
    WARP_BYTES,
)
from autoq.templates.cuda.device.residual.correction.hold_panel import HOLD_PANEL
from autoq.templates.cuda.device.residual.correction.write_row import WRITE_ROW
from autoq.templates.cuda.device.residual.read_sums import READ_SUMS
from autoq.templates.cuda.device.residual.turn_words import TURN_WORDS
from autoq.templates.cuda.device.residual.turned import TURNED_AT, turned_sizes
from autoq.templates.target import Target

_SHAPES = ((8, 2), (16, 1), (8, 1), (4, 1))
"""Warps of a block and blocks of a multiprocessor, which leave 128 registers to a thread."""

_LONGEST = 1 << 15
"""An entry has 16 bits of an index along k, of which the largest stand for none."""

# Every other wave of blocks begins with the last columns, of which the L2 still holds residuals.
_SOURCE = r"""
static_assert(COLUMNS % PIECE == 0, "residuals of b of a tile are whole pieces");
// Of the four bands of a tile, which the first four lanes have: the first step and how many.
__device__ __forceinline__ int2 read_heads(const int* bands, bool listed, int piece, int lane) {
  const int band = piece * (COLUMNS / BAND) + lane;
  if (!listed || lane >= COLUMNS / BAND || band >= (N + BAND - 1) / BAND) return make_int2(0, 0);
  return __ldg(reinterpret_cast<const int2*>(bands) + band);
}
__device__ __forceinline__ int of_band(int count, int band) {
  return __shfl_sync(0xffffffffu, count, band);
}
// All steps of a band of columns; the first ones are in shared memory.
__device__ __forceinline__ void add_band(
    int (&even)[4], int (&odd)[4], unsigned panel, const unsigned char* held,
    unsigned long long steps, int first, int count, int lane) {
  for (int done = 0; done < count; done += HELD_STEPS) {
    if (done > 0) {  // rare: lists that are longer than what was asked for ahead
      __syncwarp();
      ask_for_steps(shared_address(held), steps, first + done, count - done, lane);
      leave_group();
      wait_for_groups<0>();
      __syncwarp();
    }
    const int here = min(count - done, HELD_STEPS);
    #pragma unroll 4
    for (int s = 0; s < here; ++s) add_columns(even, odd, panel, held + s * STEP_BYTES, lane);
  }
}
// The product's lines of a tile, on their way to the L2: registers for them are free before the
// last band.
__device__ __forceinline__ void prefetch_sums(const int* sums, int top, int left, int lane) {
  const int row = top + lane % ROWS, column = left + lane / ROWS * 32;
  if (row < M && column < N) prefetch(sums + (size_t)row * N + column);
}
// Whole products, where a side takes part by one.
__device__ __forceinline__ void add_products(
    const int* by_a, const int* by_b, int (&added)[4][2][4], int row, int left) {
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int c = i / 2, h = i % 2;
    if (row + h >= M) continue;
    const size_t at = (size_t)(row + h) * N;
    int found[4] = {};
    if (by_a) add_product(by_a + at, found, left + c * BAND);
    if (by_b) add_product(by_b + at, found, left + c * BAND);
    #pragma unroll
    for (int j = 0; j < 4; ++j) added[c][j % 2][2 * h + j / 2] += found[j];
  }
}
__device__ __forceinline__ void correct(
    const int* sums, const int* by_a, const int* by_b, const float* rows, const float* columns,
    const float* bias, const void* residual_b, const void* residual_a, const void* entries_of_a,
    const int* bands_of_a, const void* entries_of_b, const int* bands_of_b, const int* whole,
    float* y, unsigned char* shared, int block, int thread) {
  const int top = panel_of(block) * ROWS, part = block / PANELS;
  const int lane = thread % 32, warp = thread / 32, begin = part * WIDTH;
  const int tiles = (min(N, begin + WIDTH) - begin + COLUMNS - 1) / COLUMNS;
  const bool listed_a = !__ldg(whole), listed_b = !__ldg(whole + 1), back = block / AHEAD % 2;
  int2 own = make_int2(0, 0);
  if (listed_a) own = __ldg(reinterpret_cast<const int2*>(bands_of_a) + panel_of(block));
  const unsigned char* const steps =
      static_cast<const unsigned char*>(entries_of_a) + (size_t)own.x * STEP_BYTES;
  unsigned char* const held = shared + PANEL_BYTES + WARPS * WARP_BYTES;
  const OwnBand band = {held, steps};
  const unsigned char* const mine = shared + PANEL_BYTES + warp * WARP_BYTES;
  const unsigned panel = shared_address(shared), chunks = shared_address(mine);
  const unsigned long long gathered =
      __cvta_generic_to_global(residual_b) + turned_at(0, lane % 4 * BAND);
  const unsigned long long of_b = __cvta_generic_to_global(entries_of_b);
  const auto piece_of = [&](int tile) {
    return begin / COLUMNS + (back ? tiles - 1 - tile : tile);
  };
  // Two chunks of what a's entries gather are on their way, of the next tile too.
  int asked = warp, asked_step = 0, asked_turn = 0, taken_turn = 0;
  const auto ask = [&] {
    if (asked < tiles && own.y > 0) {
      ask_for_rows(chunks + asked_turn * CHUNK,
                   gathered + (unsigned long long)piece_of(asked) * TILE_BYTES,
                   band, asked_step, lane);
      asked_turn ^= 1;
      if (++asked_step == own.y) asked_step = 0, asked += WARPS;
    }
    leave_group();
  };
  const auto ask_for_band = [&](const int2& heads, int band) {
    ask_for_steps(chunks + 2 * CHUNK + band % 2 * (HELD_STEPS * STEP_BYTES), of_b,
                  of_band(heads.x, band), of_band(heads.y, band), lane);
    leave_group();
  };
  const auto heads_of = [&](int tile) {
    return read_heads(bands_of_b, listed_b && tile < tiles, piece_of(tile), lane);
  };
  int2 heads = heads_of(warp);
  const int row = top + lane / 8 * 4;
  const int* const own_sums = sums + (size_t)row * N;
  float* const own_y = y + (size_t)row * N;
  float row_scales[4];
  #pragma unroll
  for (int r = 0; r < 4; ++r) row_scales[r] = row + r < M ? __ldg(rows + row + r) : 0.f;
  // What depends on what was read before is asked for behind the panel, which depends on nothing.
  if (thread * 16 < min(own.y * STEP_BYTES, OWN_BYTES))
    reinterpret_cast<uint4*>(held)[thread] = __ldg(reinterpret_cast<const uint4*>(steps) + thread);
  if (listed_b) hold_panel(static_cast<const unsigned*>(residual_a), shared, top, thread);
  ask_for_band(heads, 0);
  __syncthreads();
  ask();
  ask();
  #pragma unroll 1
  for (int tile = warp; tile < tiles; tile += WARPS) {
    const int left = piece_of(tile) * COLUMNS + lane % 8 * 4;
    prefetch_sums(sums, top, piece_of(tile) * COLUMNS, lane);
    const int2 next = heads_of(tile + WARPS);
    // Not earlier: what is written meanwhile would push the panel out of the L2 again.
    const int to_come = (tiles - 1 - tile) / WARPS;
    if (listed_b && block + AHEAD < BLOCKS && (to_come == 1 || (to_come == 0 && tile == warp)))
      prefetch_panel(static_cast<const unsigned*>(residual_a), block + AHEAD, thread);
    if (PIECES_AHEAD && listed_a && to_come > 0)
      prefetch_tile(static_cast<const unsigned char*>(residual_b),
                    piece_of(tile + WARPS) * COLUMNS, block % AHEAD, lane);
    int added[4][2][4] = {};
    int step = 0;
    const auto add_chunk = [&] {
      add_rows(added, chunks + taken_turn * CHUNK, band, step, lane);
      taken_turn ^= 1, ++step;
    };
    int4 p[2][4];
    // A round leaves two groups behind those that it waits for: what the band, and what the chunk
    // of a round before it asked for.
    #pragma unroll
    for (int c = 0; c < 4; ++c) {
      ask_for_band(c < 3 ? heads : next, (c + 1) % 4);
      if (c == 3) {
        #pragma unroll
        for (int i = 0; i < 8; ++i)
          if (M % ROWS == 0 || row + i % 4 < M)
            p[i / 4][i % 4] = read_sums<true>(own_sums + i % 4 * N, left + i / 4 * 32);
      }
      wait_for_groups<2>();
      __syncwarp();
      add_band(added[c][0], added[c][1], panel,
               mine + 2 * CHUNK + c % 2 * (HELD_STEPS * STEP_BYTES), of_b, of_band(heads.x, c),
               of_band(heads.y, c), lane);
      const bool more = step < own.y;
      if (more) add_chunk();
      __syncwarp();
      if (more) ask();
      else leave_group();
    }
    float scale[2][4], more[4] = {};
    #pragma unroll
    for (int i = 0; i < 2; ++i) read_columns(columns, left + i * 32, scale[i]);
    #pragma unroll 1
    while (step < own.y) {
      wait_for_groups<1>();
      __syncwarp();
      add_chunk();
      __syncwarp();
      ask();
    }
    heads = next;
    if (!listed_a || !listed_b)
      add_products(listed_a ? nullptr : by_a, listed_b ? nullptr : by_b, added, top + lane / 4 * 2,
                   piece_of(tile) * COLUMNS + lane % 4 * 4);
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (BIAS) read_columns(bias, left + i * 32, more);
      #pragma unroll
      for (int h = 0; h < 2; ++h) {
        int q[2][4];
        exchange(added[2 * i], added[2 * i + 1], h, q, lane);
        #pragma unroll
        for (int two = 0; two < 2; ++two) {
          const int r = 2 * two + h;
          if (M % ROWS == 0 || row + r < M)
            write_row(own_y + r * N, p[i][r], q[two], row_scales[r], scale[i], more, left + i * 32);
        }
      }
    }
  }
}
"""


@dataclass(frozen=True)
class BandCorrection:
    """How y [m, n] is put together of lists of bands.

    k: values of a row of residuals of a, filled up; length: without that; most: the largest
    integer; bias: whether it has one; parts: blocks side by side that have the same rows; pieces:
    whether what a's entries gather is brought to the L2 before they do; last_first: whether the
    last panels come first.
    """

    m: int
    n: int
    k: int
    length: int
    most: int
    bias: bool
    parts: int
    pieces: bool
    last_first: bool

    def kernel(self, parameters: Sequence[TensorSpec | None], target: Target) -> PrimFunc:
        """Parameters in the order of `correct`, those that are not None; a's residuals in rows."""
        shape = band_shape(self.k, target)
        if shape is None:
            raise ValueError(f"no block holds {BAND} rows of {self.k} residuals")
        warps, together = shape
        width = blocks_for(blocks_for(self.n, self.parts), COLUMNS) * COLUMNS
        parts, panels = blocks_for(self.n, width), blocks_for(self.m, BAND)
        sizes = {
            "M": self.m, "N": self.n, "MOST": self.most, "BIAS": self.bias,
            "WORDS_OF_ROW": self.k // 4, **turned_sizes(self.length), "ROWS": BAND, "WARPS": warps,
            "PANEL_BYTES": BAND * self.k, "PANELS": panels, "WIDTH": width,
            "WHOLE": self.n % COLUMNS == 0, "BLOCKS": panels * parts,
            "AHEAD": target.units * together, "PIECES_AHEAD": self.pieces,
            "LAST_FIRST": self.last_first,
        }  # fmt: skip
        source = READ_SUMS + WRITE_ROW + TURN_WORDS + TURNED_AT + BAND_STEPS + HOLD_PANEL + _SOURCE
        functions = DeviceNamespace("correct_bands", source, {}, sizes)

        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            given = iter(pointers)
            taken = [next(given) if spec else 0 for spec in parameters]
            size = (_smem_bytes(self.k, warps),)
            shared = builder.alloc_buffer(size, "uint8", scope="shared.dyn", align=128).data
            call(functions.function("correct"), *taken, shared, block, thread)

        given = [spec for spec in parameters if spec]
        return thread_kernel(given, panels * parts, 32 * warps, target, body, together=together)


def _smem_bytes(k: int, warps: int) -> int:
    return BAND * k + warps * WARP_BYTES + OWN_BYTES


def band_shape(k: int, target: Target) -> tuple[int, int] | None:
    """Warps of a block that holds a band of rows of k residuals, and blocks of a multiprocessor.

    None where there is no room, or no tensor cores that multiply 32 bytes along k.
    """
    if target.compute_capability < 80 or k >= _LONGEST:
        return None
    fits = (
        shape for shape in _SHAPES
        if shared_memory_fits(_smem_bytes(k, shape[0]), shape[1], target)
    )  # fmt: skip
    return next(fits, None)
