"""Integers of 4 bits as tensor cores take them, two a byte.

Everything that looks at single values reads bytes; only products read nibbles. Rows of values, and
packed weights whose tile rows hold twice as many values, keep their order: each pair of bytes
becomes one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc

from autoq.templates.arrays.storage import pack_nibbles
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.target import Target

_THREADS = 256
_BLOCKS_A_UNIT = 8

_SOURCE = r"""
__device__ __forceinline__ unsigned pairs_of(unsigned word) {
  const unsigned low = word & 0x0f0f0f0fu, pairs = low | (low >> 4);
  return (pairs & 0xffu) | ((pairs >> 8) & 0xff00u);
}
__device__ __forceinline__ void pack_nibbles(
    const void* bytes, void* nibbles, int vectors, int block, int thread) {
  for (int i = block * THREADS + thread; i < vectors; i += BLOCKS * THREADS) {
    const uint4 v = __ldg(static_cast<const uint4*>(bytes) + i);
    static_cast<uint2*>(nibbles)[i] =
        make_uint2(pairs_of(v.x) | pairs_of(v.y) << 16, pairs_of(v.z) | pairs_of(v.w) << 16);
  }
}
"""


def nibbles_of(spec: TensorSpec) -> TensorSpec:
    """What becomes of bytes: of rows int4 values, of packed weights half as many bytes."""
    name = f"{spec.name}_nibbles"
    if len(spec.shape) > 1:
        return TensorSpec(name, spec.shape, "int4")
    return TensorSpec(name, (spec.shape[0] // 2,), "int8")


def packed_nibbles(values: np.ndarray) -> np.ndarray:
    """The same of integers of 4 bits in numpy, int8 [..., row] to int8 [..., row / 2]."""
    return pack_nibbles(values).view(np.int8)


def nibbles_kernel(arrays: Sequence[TensorSpec], target: Target) -> PrimFunc:
    """Parameters: arrays of bytes, then the nibbles of each."""
    blocks = _BLOCKS_A_UNIT * target.units
    sizes = {"THREADS": _THREADS, "BLOCKS": blocks}
    functions = DeviceNamespace("nibbles", _SOURCE, {}, sizes)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        for spec, source, to in zip(arrays, pointers, pointers[len(arrays) :], strict=False):
            vectors = math.prod(spec.shape) // 16
            call(functions.function("pack_nibbles"), source, to, vectors, block, thread)

    return thread_kernel([*arrays, *map(nibbles_of, arrays)], blocks, _THREADS, target, body)
