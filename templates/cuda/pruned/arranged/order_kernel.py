"""The kernel that puts the k of activations in another order, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.memory.ring_source import RING
from autoq.templates.target import Target

PARTS = 4
"""Places of a row in shared memory that lanes of a warp read together."""
UNIT_BYTES = 16
"""That a lane puts together."""
_ROWS = (32, 16, 8)
"""Of a block, the most that shared memory has room for."""
_THREADS = 512
_BARRIERS = 32

# Lanes are eight rows and four parts of 64 bytes. Rows are 16 bytes more than a multiple of 128
# apart, so that lanes meet no bank twice where their words differ modulo four (`banks.py`).
SOURCE = r"""
constexpr int PITCH = (ROW_BYTES + 127) / 128 * 128 + 16, EACH = 16 / SIZE;

// 16 bytes of a row, of the k that are named.
__device__ __forceinline__ uint4 pick(const unsigned char* row, const unsigned (&named)[EACH]) {
  unsigned word[4];
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (SIZE == 1) {
      const unsigned a = row[named[4 * i]], b = row[named[4 * i + 1]];
      const unsigned c = row[named[4 * i + 2]], d = row[named[4 * i + 3]];
      word[i] = __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
    } else {
      const unsigned a = *reinterpret_cast<const unsigned short*>(row + named[2 * i]);
      const unsigned b = *reinterpret_cast<const unsigned short*>(row + named[2 * i + 1]);
      word[i] = __byte_perm(a, b, 0x5410);
    }
  }
  return make_uint4(word[0], word[1], word[2], word[3]);
}
__device__ __forceinline__ void arrange_rows(
    unsigned char* smem, const void* x, const int* order, void* y, int block, int thread) {
  const int first = block * ROWS, there = min(ROWS, M - first), lane = thread % 32;
  const unsigned base = (unsigned)__cvta_generic_to_shared(smem), full = base + ROWS * PITCH;
  if (thread == 0) {
    for (int i = 0; i < ROWS / 8; ++i) barrier_init(full + 8 * i, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    const unsigned char* from = static_cast<const unsigned char*>(x) + (long long)first * ROW_BYTES;
    for (int r = 0; r < there; ++r) {
      if (r % 8 == 0) barrier_expect(full + r, min(8, there - r) * ROW_BYTES);
      bulk_copy(base + r * PITCH, from + r * ROW_BYTES, ROW_BYTES, full + r / 8 * 8);
    }
  }
  __syncthreads();
  const int row = lane % 8, part = lane / 8, segments = __ldg(order) * (128 / 64);
  const unsigned* names = reinterpret_cast<const unsigned*>(order + 4) + part * (EACH / 2);
  // Eight rows are put in order while others come.
  #pragma unroll 1
  for (int r = 0; r < there; r += 8) {
    barrier_wait(full + r, 0);
    const unsigned char* own = smem + (r + row) * PITCH;
    unsigned char* to = static_cast<unsigned char*>(y) + (first + r + row) * 128 + part * 16;
    #pragma unroll 2
    for (int s = thread / 32; s < segments; s += THREADS / 32) {
      const uint4* named_by = reinterpret_cast<const uint4*>(names + s * 2 * EACH);
      unsigned named[EACH];
      #pragma unroll
      for (int i = 0; i < EACH / 8; ++i) {
        const uint4 eight = __ldg(named_by + i);
        const unsigned two[4] = {eight.x, eight.y, eight.z, eight.w};
        #pragma unroll
        for (int j = 0; j < 8; ++j)
          named[8 * i + j] = (j % 2 ? two[j / 2] >> 16 : two[j / 2] & 0xffff) * SIZE;
      }
      const uint4 unit = pick(own, named);
      if (r + row < there)
        *reinterpret_cast<uint4*>(to + (long long)(s / 2) * M * 128 + s % 2 * 64) = unit;
    }
  }
}
"""
"""arrange_rows(smem, x, order, x in order, block, thread); order begins with the stages."""


def rows_of_block(x: TensorSpec, target: Target) -> int | None:
    """Rows of x [m, k] that a block has in shared memory; None where there is no room."""
    return next((rows for rows in _ROWS if _smem_bytes(x, rows) <= target.smem_bytes), None)


def _smem_bytes(x: TensorSpec, rows: int) -> int:
    pitch = -(-x.shape[1] * x.element.bytes // 128) * 128 + UNIT_BYTES
    return rows * pitch + _BARRIERS


def order_kernel(x: TensorSpec, order: TensorSpec, y: TensorSpec, target: Target) -> PrimFunc:
    """The kernel of x [m, k] of 8 or 16 bits to y [stages, m, 128 bytes]; parameters x, order, y.

    A row of x is a multiple of 16 bytes. What y has behind the stages that order names is left.
    """
    rows, size = rows_of_block(x, target), x.element.bytes
    assert rows is not None
    m, k = x.shape
    sizes = {
        "M": m, "SIZE": size, "ROW_BYTES": k * size, "ROWS": rows, "THREADS": _THREADS,
        "STAGES": 1,
    }  # fmt: skip
    functions = DeviceNamespace("arrange_rows", RING + SOURCE, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer(
            (_smem_bytes(x, rows),), "uint8", scope="shared.dyn", align=128
        ).data
        call(functions.function("arrange_rows"), smem, *pointers, block, thread)

    return thread_kernel([x, order, y], blocks_for(m, rows), _THREADS, target, body)
