"""Residuals with k as rows, as lists gather them, from those that products of integers take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.weight_layout import PACKED_AT, WeightLayout
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_TILE, _THREADS = 128, 256

# Eight lanes read 128 values of a row, and write 16 rows each of a k: whole lines both ways. Units
# of shared memory are exchanged by groups of 16 rows, so that these meet other banks.
_SOURCE = r"""
__device__ __forceinline__ void turn_four(const unsigned (&v)[4], unsigned (&turned)[4]) {
  const unsigned a = __byte_perm(v[0], v[1], 0x5140), b = __byte_perm(v[2], v[3], 0x5140);
  const unsigned c = __byte_perm(v[0], v[1], 0x7362), d = __byte_perm(v[2], v[3], 0x7362);
  turned[0] = __byte_perm(a, b, 0x5410), turned[1] = __byte_perm(a, b, 0x7632);
  turned[2] = __byte_perm(c, d, 0x5410), turned[3] = __byte_perm(c, d, 0x7632);
}
template <bool PACKED> __device__ __forceinline__ void turn_tile(
    const void* values, void* turned, int rows, int pitch, int first, int left, unsigned* tile,
    int thread) {
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
  if (first + 16 * group >= pitch) return;
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
    static_cast<uint4*>(turned)[((size_t)k * pitch + first) / 16 + group] =
        make_uint4(columns[j][0], columns[j][1], columns[j][2], columns[j][3]);
  }
}
__device__ __forceinline__ void turn_sides(
    const void* a, const void* b, void* turned_a, void* turned_b, unsigned* tile, int block,
    int thread) {
  const int across = (K + 127) / 128, blocks_a = (M + 127) / 128 * across;
  if (block < blocks_a) {
    block = blocks_a - 1 - block;  // the last rows first, which the L2 still holds
    turn_tile<false>(a, turned_a, M, PITCH_A, block / across * 128, block % across * 128, tile,
                     thread);
  } else {
    block -= blocks_a;
    turn_tile<true>(b, turned_b, N, PITCH_B, block / across * 128, block % across * 128, tile,
                    thread);
  }
}
"""


def turn_kernel(
    given: Sequence[TensorSpec], turned: Sequence[TensorSpec], n: int, layout: WeightLayout,
    target: Target,
) -> PrimFunc:  # fmt: skip
    """The kernel of a alone, or of both sides.

    given: residuals of a int8 [m, whole units of k] and maybe of b, packed; turned: int8 [k,
    pitch] of the same sides. Parameters given, then turned; n: columns of b.
    """
    rows, k, pitches = given[0].shape, turned[0].shape[0], [spec.shape[1] for spec in turned]
    sizes = {
        **layout.sizes(), "M": rows[0], "N": n, "K": k, "VECTORS": rows[1] // 16,
        "PITCH_A": pitches[0], "PITCH_B": pitches[-1],
    }  # fmt: skip
    functions = DeviceNamespace("turn_sides", PACKED_AT + _SOURCE, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        a, b, turned_a, turned_b = pointers if len(given) > 1 else (pointers[0], 0, pointers[1], 0)
        words = (_TILE * _TILE // 4,)
        tile = builder.alloc_buffer(words, "uint32", scope="shared", align=16).data
        call(functions.function("turn_sides"), a, b, turned_a, turned_b, tile, block, thread)

    tiles = sum(blocks_for(extent, _TILE) for extent in (rows[0], n)[: len(given)])
    return thread_kernel([*given, *turned], tiles * blocks_for(k, _TILE), _THREADS, target, body)
