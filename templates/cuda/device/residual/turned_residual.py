"""Residuals of a matrix whose rows have scales, with its columns as rows.

What was quantised a row at a time is corrected a column at a time: a gathered column of residuals
then lies together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import blocks_for, call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.quantisation import QUANTISATION
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec

_ROWS, _COLUMNS, _THREADS = 128, 64, 256
"""Of a tile, and the threads that turn it."""

# A thread turns 4 rows by 4 columns: 16 threads read 64 values of a row, and words of 4 rows wait
# in shared memory, from where 8 threads write 128 bytes of a column. Words are exchanged so that
# both ways meet all banks.
_SOURCE = r"""
__device__ __forceinline__ void turn_residual(
    const float* x, const float* scales, const float* inverses, void* turned, unsigned* shared,
    int block, int thread) {
  const int first = block % TILES_DOWN * 128, left = block / TILES_DOWN * 64;
  const int at = thread % 16 * 4;
  #pragma unroll
  for (int part = 0; part < 2; ++part) {
    const int group = part * 16 + thread / 16;
    float4 v[4], rest[4];
    Steps steps[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = min(first + 4 * group + i, ROWS - 1);
      v[i] = read_four<LENGTH>(x + (size_t)row * LENGTH, left + at);
      steps[i] = {__ldg(scales + row), __ldg(inverses + row)};
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) rest[i] = residuals(v[i], quantised(v[i], steps[i]), steps[i]);
    const unsigned columns[4] = {
        word_of(rest[0].x, rest[1].x, rest[2].x, rest[3].x),
        word_of(rest[0].y, rest[1].y, rest[2].y, rest[3].y),
        word_of(rest[0].z, rest[1].z, rest[2].z, rest[3].z),
        word_of(rest[0].w, rest[1].w, rest[2].w, rest[3].w)};
    #pragma unroll
    for (int c = 0; c < 4; ++c) shared[(at + c) * 32 + (group ^ (at / 4 * 2))] = columns[c];
  }
  __syncthreads();
  #pragma unroll
  for (int part = 0; part < 2; ++part) {
    const int column = part * 32 + thread / 8, row = thread % 8 * 16;
    if (left + column >= LENGTH || first + row >= PITCH) continue;
    unsigned words[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = shared[column * 32 + ((row / 4 + i) ^ (column / 4 * 2))];
    reinterpret_cast<uint4*>(turned)[((size_t)(left + column) * PITCH + first + row) / 16] =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}
"""


def turned_residual(
    x: TensorSpec, scale: TensorSpec, inverse: TensorSpec, turned: TensorSpec, most: int,
    target: Target,
) -> PrimFunc:  # fmt: skip
    """The kernel of residuals int8 [length, pitch] of x float32 [rows, length].

    Parameters x, scale and inverse float32 [rows], turned; its rows are whole 16 bytes.
    """
    rows, length = x.shape
    down, across = blocks_for(rows, _ROWS), blocks_for(length, _COLUMNS)
    sizes = {"MOST": most, "ROWS": rows, "LENGTH": length, "PITCH": turned.shape[1],
             "TILES_DOWN": down}  # fmt: skip
    functions = DeviceNamespace("turned_residual", QUANTISATION + _SOURCE, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        words = (_ROWS * _COLUMNS // 4,)
        shared = builder.alloc_buffer(words, "uint32", scope="shared").data
        call(functions.function("turn_residual"), *pointers, shared, block, thread)

    return thread_kernel([x, scale, inverse, turned], down * across, _THREADS, target, body)
