"""Activations with k as rows, as kernels of pruned weights gather them, turned by blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.target import Target

TURN_TILE, _THREADS = 128, 256
TURN_BYTES = TURN_TILE * TURN_TILE

# A block takes 128 rows of 128 bytes. Units of 16 bytes change places by groups of rows, so that
# lanes which read words of different groups meet different banks.
TURN_UNITS = r"""
constexpr int GROUP_ROWS = 16 / SIZE, GROUPS = 128 / GROUP_ROWS, EACH = 4 / SIZE;
constexpr int UNITS = 1024 / THREADS;
__device__ __forceinline__ void turn_four(const unsigned (&v)[4], unsigned (&turned)[4]) {
  const unsigned a = __byte_perm(v[0], v[1], 0x5140), b = __byte_perm(v[2], v[3], 0x5140);
  const unsigned c = __byte_perm(v[0], v[1], 0x7362), d = __byte_perm(v[2], v[3], 0x7362);
  turned[0] = __byte_perm(a, b, 0x5410), turned[1] = __byte_perm(a, b, 0x7632);
  turned[2] = __byte_perm(c, d, 0x5410), turned[3] = __byte_perm(c, d, 0x7632);
}
__device__ __forceinline__ int place_of(int row, int word) {
  return row * 32 + (word ^ (row / GROUP_ROWS % 8 * 4));
}
__device__ __forceinline__ uint4 load_unit(const unsigned char* x, int row, int byte) {
  const long long at = (long long)row * ROW_BYTES + byte;
  if constexpr (ROW_BYTES % 16 == 0) return __ldg(reinterpret_cast<const uint4*>(x + at));
  unsigned word[4] = {0, 0, 0, 0};
  #pragma unroll
  for (int i = 0; i < 16 / SIZE; ++i) {
    if (byte + i * SIZE >= ROW_BYTES) continue;
    unsigned value;
    if constexpr (SIZE == 1) value = __ldg(x + at + i);
    else if constexpr (SIZE == 4) value = __ldg(reinterpret_cast<const unsigned*>(x + at) + i);
    else value = __ldg(reinterpret_cast<const unsigned short*>(x + at) + i);
    word[i * SIZE / 4] |= value << (8 * (i * SIZE % 4));
  }
  return make_uint4(word[0], word[1], word[2], word[3]);
}
// The block's rows of x, of which a thread holds some units until they are turned.
__device__ __forceinline__ void load_units(
    uint4 (&held)[UNITS], const unsigned char* x, int first, int left, int thread) {
  #pragma unroll
  for (int i = 0; i < UNITS; ++i) {
    const int row = i * (THREADS / 8) + thread / 8, unit = thread % 8;
    held[i] = make_uint4(0, 0, 0, 0);
    if (first + row < M && left + unit * 16 < ROW_BYTES)
      held[i] = load_unit(x, first + row, left + unit * 16);
  }
}
__device__ __forceinline__ void lay_units(
    const uint4 (&held)[UNITS], unsigned* tile, int thread) {
  #pragma unroll
  for (int i = 0; i < UNITS; ++i) {
    const int row = i * (THREADS / 8) + thread / 8;
    *reinterpret_cast<uint4*>(tile + place_of(row, thread % 8 * 4)) = held[i];
  }
}
__device__ __forceinline__ void write_turned(
    const unsigned* tile, void* to, int first, int left, int thread) {
  #pragma unroll
  for (int item = thread; item < GROUPS * 32; item += THREADS) {
    const int group = item % GROUPS, word = item / GROUPS;
    if (first + group * GROUP_ROWS >= PITCH) continue;
    unsigned turned[EACH][4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      unsigned four[4];
      #pragma unroll
      for (int j = 0; j < GROUP_ROWS / 4; ++j)
        four[j] = tile[place_of(group * GROUP_ROWS + i * (GROUP_ROWS / 4) + j, word)];
      if constexpr (SIZE == 1) {
        unsigned column[4];
        turn_four(four, column);
        #pragma unroll
        for (int j = 0; j < 4; ++j) turned[j % EACH][i] = column[j];
      } else if constexpr (SIZE == 4) {
        turned[0][i] = four[0];
      } else {
        turned[0][i] = __byte_perm(four[0], four[1], 0x5410);
        turned[EACH - 1][i] = __byte_perm(four[0], four[1], 0x7632);
      }
    }
    #pragma unroll
    for (int j = 0; j < EACH; ++j) {
      const int k = left / SIZE + word * EACH + j;
      if (k >= K) break;
      const long long at = ((long long)k * PITCH + first) * SIZE / 16 + group;
      static_cast<uint4*>(to)[at] =
          make_uint4(turned[j][0], turned[j][1], turned[j][2], turned[j][3]);
    }
  }
}
"""
"""load_units, lay_units and write_turned of THREADS threads, which meet between the last two."""

_TURN = r"""
__device__ __forceinline__ void turn(
    const void* from, void* to, unsigned* tile, int block, int thread) {
  const int first = block / ACROSS * 128, left = block % ACROSS * 128;
  uint4 held[UNITS];
  load_units(held, static_cast<const unsigned char*>(from), first, left, thread);
  lay_units(held, tile, thread);
  __syncthreads();
  write_turned(tile, to, first, left, thread);
}
"""


def turn_sizes(x: TensorSpec, turned: TensorSpec, threads: int) -> dict[str, int]:
    """Constants of `TURN_UNITS`: x [m, k], turned [k, pitch], and threads that turn a block."""
    (m, k), (_, pitch), size = x.shape, turned.shape, x.element.bytes
    return {
        "M": m, "K": k, "PITCH": pitch, "SIZE": size, "ROW_BYTES": k * size,
        "ACROSS": blocks_for(k * size, TURN_TILE), "THREADS": threads,
    }  # fmt: skip


def turn_kernel(x: TensorSpec, turned: TensorSpec, target: Target) -> PrimFunc:
    """The kernel that transposes x [m, k] of 8, 16 or 32 bits to [k, pitch]; behind m it has 0.

    The pitch is a multiple of 16 values. Parameters x and turned.
    """
    sizes = turn_sizes(x, turned, _THREADS)
    functions = DeviceNamespace("turn_rows", TURN_UNITS + _TURN, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        words = (TURN_BYTES // 4,)
        tile = builder.alloc_buffer(words, "uint32", scope="shared", align=16).data
        call(functions.function("turn"), *pointers, tile, block, thread)

    return thread_kernel(
        [x, turned],
        blocks_for(turned.shape[1], TURN_TILE) * sizes["ACROSS"],
        _THREADS,
        target,
        body,
    )
