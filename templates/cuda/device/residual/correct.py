"""The result of a product and of its corrections: tiles of y, each written once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_WARPS = 8
COLUMNS = 128
"""Columns of a tile: a warp gathers 128 bytes, four of each lane."""
SEGMENT = 16
"""Rows of a lane that gathers residuals of a."""

_SOURCE = r"""
constexpr int SEGMENTS = TILE_ROWS / 16, BESIDE = 32 / SEGMENTS;
constexpr int PASSES = 128 / (WARPS * BESIDE), OWN_ROWS = TILE_ROWS / WARPS, AHEAD = 4;
// What is read and written once leaves the cache first, to what is gathered again.
__device__ __forceinline__ int4 read_sums(const int* row, int column) {
  if constexpr (N % 4 == 0) {
    return column < N ? __ldcs(reinterpret_cast<const int4*>(row + column)) : make_int4(0, 0, 0, 0);
  } else {
    return make_int4(column < N ? __ldg(row + column) : 0,
                     column + 1 < N ? __ldg(row + column + 1) : 0,
                     column + 2 < N ? __ldg(row + column + 2) : 0,
                     column + 3 < N ? __ldg(row + column + 3) : 0);
  }
}
// The values of four entries, and of words of neighbours what they are multiplied with: words are
// turned, so that each product adds all four entries to one of the neighbours.
__device__ __forceinline__ unsigned values_of(const unsigned* entry) {
  const unsigned low = __byte_perm(entry[0], entry[1], 0x0040);
  return __byte_perm(low, __byte_perm(entry[2], entry[3], 0x0040), 0x5410);
}
__device__ __forceinline__ void add_four(
    int* to, unsigned w, unsigned x, unsigned y, unsigned z, unsigned values) {
  const unsigned a = __byte_perm(w, x, 0x5140), b = __byte_perm(y, z, 0x5140);
  const unsigned c = __byte_perm(w, x, 0x7362), d = __byte_perm(y, z, 0x7362);
  to[0] = __dp4a((int)__byte_perm(a, b, 0x5410), (int)values, to[0]);
  to[1] = __dp4a((int)__byte_perm(a, b, 0x7632), (int)values, to[1]);
  to[2] = __dp4a((int)__byte_perm(c, d, 0x5410), (int)values, to[2]);
  to[3] = __dp4a((int)__byte_perm(c, d, 0x7632), (int)values, to[3]);
}
__device__ __forceinline__ void read_entries(
    unsigned (&entry)[AHEAD], const unsigned* entries, int2 list, int first) {
  #pragma unroll
  for (int u = 0; u < AHEAD; ++u)
    entry[u] = first + u < list.y ? __ldg(entries + list.x + first + u) : 0;
}
// What the columns' entries add to a tile, for all of its rows; words of a row are exchanged, so
// that lanes that have rows of one column meet other banks.
__device__ __forceinline__ void add_columns(
    const unsigned char* turned, const unsigned* entries, const int* lists, int* tile, int top,
    int left, int thread) {
  const int lane = thread % 32, segment = lane % SEGMENTS, row = top + 16 * segment;
  const int first = thread / 32 * (PASSES * BESIDE) + lane / SEGMENTS;
  int2 list[PASSES];
  #pragma unroll
  for (int p = 0; p < PASSES; ++p) {
    const int column = left + first + p * BESIDE;
    list[p] = make_int2(0, 0);
    if (column < N && row < PITCH_A) list[p] = __ldg(reinterpret_cast<const int2*>(lists) + column);
  }
  #pragma unroll
  for (int p = 0; p < PASSES; ++p) {
    const int c = first + p * BESIDE;
    int sums[16] = {};
    unsigned next[AHEAD];
    read_entries(next, entries, list[p], 0);
    for (int e = 0; e < list[p].y; e += AHEAD) {
      uint4 found[AHEAD];
      unsigned entry[AHEAD];
      #pragma unroll
      for (int u = 0; u < AHEAD; ++u) {
        entry[u] = next[u];
        found[u] = make_uint4(0, 0, 0, 0);
        if (e + u < list[p].y)
          found[u] = __ldg(reinterpret_cast<const uint4*>(
              turned + (size_t)(entry[u] >> 8) * PITCH_A + row));
      }
      read_entries(next, entries, list[p], e + AHEAD);
      const unsigned values = values_of(entry);
      add_four(sums, found[0].x, found[1].x, found[2].x, found[3].x, values);
      add_four(sums + 4, found[0].y, found[1].y, found[2].y, found[3].y, values);
      add_four(sums + 8, found[0].z, found[1].z, found[2].z, found[3].z, values);
      add_four(sums + 12, found[0].w, found[1].w, found[2].w, found[3].w, values);
    }
    #pragma unroll
    for (int i = 0; i < 16; ++i)
      tile[(16 * segment + i) * 128 + (c ^ (segment * BESIDE))] = sums[i];
  }
}
// What a row's entries add to four columns of each lane; `own` are the first of them.
__device__ __forceinline__ void add_row(
    const unsigned char* rows, const unsigned* entries, unsigned own, int start, int count,
    int (&sums)[4], int column, int lane) {
  constexpr int TOGETHER = 8;
  for (int first = 0; first < count; first += 32) {
    if (first > 0) own = first + lane < count ? __ldg(entries + start + first + lane) : 0;
    for (int i = 0; i < min(count - first, 32); i += TOGETHER) {
      unsigned entry[TOGETHER], found[TOGETHER];
      #pragma unroll
      for (int u = 0; u < TOGETHER; ++u) {
        entry[u] = __shfl_sync(0xffffffffu, own, i + u);
        found[u] = 0;
        if (first + i + u < count && column < PITCH_B)
          found[u] = __ldg(reinterpret_cast<const unsigned*>(
              rows + (size_t)(entry[u] >> 8) * PITCH_B + column));
      }
      #pragma unroll
      for (int u = 0; u < TOGETHER; u += 4)
        add_four(sums, found[u], found[u + 1], found[u + 2], found[u + 3], values_of(entry + u));
    }
  }
}
__device__ __forceinline__ void add_product(const int* product, int (&sums)[4], int column) {
  const int4 q = read_sums(product, column);
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
  if (LISTS && !whole_b) {
    add_columns(static_cast<const unsigned char*>(residual_a), entries_of_b, columns_of_b, tile,
                top, left, thread);
    __syncthreads();
  }
  float scale[4], more[4];
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    scale[c] = column + c < N ? __ldg(columns + column + c) : 0.f;
    more[c] = BIAS && column + c < N ? __ldg(bias + column + c) : 0.f;
  }
  // A warp's rows are neighbours; lists, entries and sums of the next one come ahead.
  const int own_rows = thread / 32 * OWN_ROWS, first = top + own_rows;
  int2 lists = make_int2(0, 0);
  float row_scales = 0.f;
  if (lane < OWN_ROWS && first + lane < M) {
    row_scales = __ldg(rows + first + lane);
    if (!whole_a) lists = __ldg(reinterpret_cast<const int2*>(rows_of_a) + first + lane);
  }
  unsigned next_entries = 0;
  int4 next_sums = make_int4(0, 0, 0, 0);
  for (int i = -1; i < OWN_ROWS && first + i < M; ++i) {
    const unsigned own_entries = next_entries;
    const int4 p = next_sums;
    if (i + 1 < OWN_ROWS && first + i + 1 < M) {
      const int start = __shfl_sync(0xffffffffu, lists.x, i + 1);
      const int count = __shfl_sync(0xffffffffu, lists.y, i + 1);
      next_entries = lane < count ? __ldg(entries_of_a + start + lane) : 0;
      next_sums = read_sums(sums + (size_t)(first + i + 1) * N, column);
    }
    if (i < 0) continue;
    const size_t at = (size_t)(first + i) * N;
    int added[4] = {};
    if (whole_b) {
      add_product(by_b + at, added, column);
    } else {
      const int r = own_rows + i;
      const int4 q = *reinterpret_cast<const int4*>(
          tile + r * 128 + ((4 * lane) ^ (r / 16 * BESIDE)));
      added[0] = q.x, added[1] = q.y, added[2] = q.z, added[3] = q.w;
    }
    if (whole_a) {
      add_product(by_a + at, added, column);
    } else {
      const int start = __shfl_sync(0xffffffffu, lists.x, i);
      const int count = __shfl_sync(0xffffffffu, lists.y, i);
      add_row(static_cast<const unsigned char*>(residual_b), entries_of_a, own_entries, start,
              count, added, column, lane);
    }
    const float row_scale = __shfl_sync(0xffffffffu, row_scales, i);
    write_row(y + at, p, added, row_scale, scale, more, column);
  }
}
"""


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
