"""Residuals with k as rows, as lists gather them, from those that products of integers take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.turn_words import TURN_WORDS
from autoq.templates.cuda.device.residual.turned import TURNED_AT, turned_shape, turned_sizes
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.target import Target

_TILE, _THREADS = 128, 256

# Eight lanes read 128 values of a row, and write 16 rows each of a k: whole lines both ways. Units
# of shared memory are exchanged by groups of 16 rows, so that these meet other banks.
_SOURCE = r"""
template <bool PACKED> __device__ __forceinline__ void turn_tile(
    const void* values, void* turned, int rows, int first, int left, unsigned* tile, int thread) {
  uint4 found[4];
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = first + i * 32 + thread / 8, vector = left / 16 + thread % 8;
    found[i] = make_uint4(0, 0, 0, 0);
    if (row < rows && vector < VECTORS) {
      size_t at = (size_t)row * VECTORS + vector;
      if constexpr (PACKED) at = packed_at(row, 16 * vector) / 16;
      found[i] = __ldg(static_cast<const uint4*>(values) + at);
    }
  }
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = i * 32 + thread / 8, word = thread % 8 * 4;
    *reinterpret_cast<uint4*>(tile + row * 32 + (word ^ (row / 16 * 4))) = found[i];
  }
  __syncthreads();
  const int group = thread % 8, word = thread / 8;
  const int row = first + 16 * group;
  if (row >= (PACKED ? PADDED_B : PITCH_A)) return;
  unsigned columns[4][4];
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    unsigned four[4], column[4];
    #pragma unroll
    for (int j = 0; j < 4; ++j)
      four[j] = tile[(16 * group + 4 * i + j) * 32 + (word ^ (group * 4))];
    turn_four(four, column);
    #pragma unroll
    for (int j = 0; j < 4; ++j) columns[j][i] = column[j];
  }
  #pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int k = left + 4 * word + j;
    if (k >= K) break;
    const size_t at = PACKED ? turned_at(k, row) : (size_t)k * PITCH_A + row;
    static_cast<uint4*>(turned)[at / 16] =
        make_uint4(columns[j][0], columns[j][1], columns[j][2], columns[j][3]);
  }
}
__device__ __forceinline__ void turn_sides(
    const void* a, const void* b, void* turned_a, void* turned_b, unsigned* tile, int block,
    int thread) {
  const int across = (K + 127) / 128, blocks_a = TURNS_A ? (M + 127) / 128 * across : 0;
  if (block < blocks_a) {
    block = blocks_a - 1 - block;  // the last rows first, which the L2 still holds
    turn_tile<false>(a, turned_a, M, block / across * 128, block % across * 128, tile, thread);
  } else {
    block -= blocks_a;
    turn_tile<true>(b, turned_b, N, block / across * 128, block % across * 128, tile, thread);
  }
}
"""


def turn_kernel(
    given: Sequence[TensorSpec | None], turned: Sequence[TensorSpec | None], extents: Sequence[int],
    vectors: int, k: int, layout: WeightLayout, target: Target,
) -> PrimFunc:  # fmt: skip
    """The kernel of one side or of both.

    given: residuals of a int8 [m, 16 * vectors] and of b, packed, None for a side that stays as it
    is; turned: of the same sides, int8 [k, pitch], and as `TURNED_AT` says. Parameters those of
    given, then of turned; extents: m and n; k: rows of what is turned.
    """
    parameters = [spec for spec in (*given, *turned) if spec]
    pitch_a = turned[0].shape[1] if turned[0] else 0
    pieces, _, piece = turned_shape(extents[1], k)
    sizes = {
        **layout.sizes(), "M": extents[0], "N": extents[1], "VECTORS": vectors,
        "PITCH_A": pitch_a, "PADDED_B": pieces * piece, **turned_sizes(k),
        "TURNS_A": given[0] is not None,
    }  # fmt: skip
    source = PACKED_AT + TURNED_AT + TURN_WORDS + _SOURCE
    functions = DeviceNamespace("turn_sides", source, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        left = iter(pointers)
        a, b, turned_a, turned_b = [next(left) if spec else 0 for spec in (*given, *turned)]
        words = (_TILE * _TILE // 4,)
        tile = builder.alloc_buffer(words, "uint32", scope="shared", align=16).data
        call(functions.function("turn_sides"), a, b, turned_a, turned_b, tile, block, thread)

    sides = zip(given, extents, strict=True)
    tiles = sum(blocks_for(extent, _TILE) for spec, extent in sides if spec)
    return thread_kernel(parameters, tiles * blocks_for(k, _TILE), _THREADS, target, body)
