"""The kernel that puts the k of activations in another order, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.target import Target

ROWS = (32, 16, 8)
"""Of a block, the most that shared memory has room for."""
_THREADS = 512
_WARP = 32

# A lane has a row, so that all lanes read the same k: rows are an odd number of words apart, or as
# many words as there are groups of lanes. Lanes of a warp that share rows have k of their own.
SOURCE = r"""
constexpr int PARTS = 32 / ROWS, PITCH = ROW_BYTES + 4 * PARTS;

// Units of 16 bytes to rows that begin anywhere: the words of eight lanes take different turns.
__device__ __forceinline__ void lay_unit(unsigned* to, const uint4& unit, int lane) {
  const int turn = lane / 8;
  const bool odd = turn & 1, two = turn & 2;
  const unsigned a = odd ? unit.y : unit.x, b = odd ? unit.z : unit.y;
  const unsigned c = odd ? unit.w : unit.z, d = odd ? unit.x : unit.w;
  to[turn] = two ? c : a, to[turn + 1 & 3] = two ? d : b;
  to[turn + 2 & 3] = two ? a : c, to[turn + 3 & 3] = two ? b : d;
}
// Two words of a row, of the k that four words name.
__device__ __forceinline__ uint2 pick(const unsigned char* row, const uint4& k) {
  unsigned value[8 / SIZE];
  const unsigned named[4] = {k.x, k.y, k.z, k.w};
  #pragma unroll
  for (int i = 0; i < 8 / SIZE; ++i) {
    const unsigned at = i % 2 ? named[i / 2] >> 16 : named[i / 2] & 0xffff;
    if constexpr (SIZE == 1) value[i] = row[at];
    else value[i] = reinterpret_cast<const unsigned short*>(row)[at];
  }
  if constexpr (SIZE == 1) {
    unsigned word[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i)
      word[i] = __byte_perm(__byte_perm(value[4 * i], value[4 * i + 1], 0x0040),
                            __byte_perm(value[4 * i + 2], value[4 * i + 3], 0x0040), 0x5410);
    return make_uint2(word[0], word[1]);
  } else {
    return make_uint2(__byte_perm(value[0], value[1], 0x5410),
                      __byte_perm(value[2], value[3], 0x5410));
  }
}
__device__ __forceinline__ void arrange_rows(
    unsigned char* smem, const void* x, const int* order, void* y, int block, int thread) {
  const int first = block * ROWS, there = min(ROWS, M - first), lane = thread % 32;
  const uint4* from = reinterpret_cast<const uint4*>(
      static_cast<const unsigned char*>(x) + (long long)first * ROW_BYTES);
  constexpr int UNITS = ROW_BYTES / 16;
  #pragma unroll 8
  for (int i = thread; i < there * UNITS; i += THREADS)
    lay_unit(reinterpret_cast<unsigned*>(smem + i / UNITS * PITCH) + i % UNITS * 4, __ldg(from + i),
             lane);
  __syncthreads();
  const int row = lane % ROWS, segments = __ldg(order) * (128 / 32);
  if (row >= there) return;
  const uint4* named = reinterpret_cast<const uint4*>(order + 4);
  unsigned char* to =
      static_cast<unsigned char*>(y) + (long long)(first + row) * ARRANGED_BYTES;
  for (int s = thread / 32 * PARTS + lane / ROWS; s < segments; s += THREADS / 32 * PARTS) {
    uint2 two[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint4 k;
      if constexpr (SIZE == 1) {
        k = __ldg(named + s * 4 + i);
      } else {
        const uint2 half = __ldg(reinterpret_cast<const uint2*>(named) + s * 4 + i);
        k = make_uint4(half.x, half.y, 0, 0);
      }
      two[i] = pick(smem + row * PITCH, k);
    }
    uint4* at = reinterpret_cast<uint4*>(to + s * 32);
    at[0] = make_uint4(two[0].x, two[0].y, two[1].x, two[1].y);
    at[1] = make_uint4(two[2].x, two[2].y, two[3].x, two[3].y);
  }
}
"""
"""arrange_rows(smem, x, order, x in order, block, thread); order begins with the stages."""


def rows_of_block(x: TensorSpec, target: Target) -> int | None:
    """Rows of x [m, k] that a block has in shared memory; None where there is no room."""
    return next((rows for rows in ROWS if _smem_bytes(x, rows) <= target.smem_bytes), None)


def _smem_bytes(x: TensorSpec, rows: int) -> int:
    return rows * (x.shape[1] * x.element.bytes + 4 * (_WARP // rows))


def order_kernel(x: TensorSpec, order: TensorSpec, y: TensorSpec, target: Target) -> PrimFunc:
    """The kernel of x [m, k] of 8 or 16 bits to y [m, depth]; parameters x, order, y.

    A row of x is a multiple of 16 bytes. What y has behind the stages that order names is left.
    """
    rows, size = rows_of_block(x, target), x.element.bytes
    assert rows is not None
    (m, k), depth = x.shape, y.shape[1]
    sizes = {
        "M": m, "SIZE": size, "ROW_BYTES": k * size, "ARRANGED_BYTES": depth * size, "ROWS": rows,
        "THREADS": _THREADS,
    }  # fmt: skip
    functions = DeviceNamespace("arrange_rows", SOURCE, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer(
            (_smem_bytes(x, rows),), "uint8", scope="shared.dyn", align=16
        ).data
        call(functions.function("arrange_rows"), smem, *pointers, block, thread)

    return thread_kernel([x, order, y], blocks_for(m, rows), _THREADS, target, body)
