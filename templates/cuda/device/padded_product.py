"""Products whose rows end anywhere: x is copied to rows of whole vectors, and then multiplied.

The weights of the additional k are 0, so that it does not matter what lies there in x.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.arrays.storage import is_four_bit, stored
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import call, indexable, items_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_ROW_UNIT_BYTES = 16
_THREADS = 128
_SOURCE = r"""
__device__ __forceinline__ void copy_word(const void* from, void* to, int row, int word) {
  const unsigned char* x = static_cast<const unsigned char*>(from) + row * ROW;
  unsigned bytes = 0;
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = 4 * word + i;
    if (at < ROW) bytes |= (unsigned)__ldg(x + at) << 8 * i;
  }
  static_cast<unsigned*>(to)[row * WORDS + word] = bytes;
}
"""
_PADDED = "padded_x"


def whole(workload: Gemm) -> Gemm:
    """The product over rows of x that are whole vectors of 16 bytes."""
    values = _ROW_UNIT_BYTES * (2 if is_four_bit(workload.in_dtype) else 1)
    return dataclasses.replace(workload, k=-(-workload.k // values) * values)


def takes_copy(workload: Gemm) -> bool:
    """Whether there is something to copy, in 32-bit indices; rows of groups are whole."""
    if workload.epilogue.scale_group:
        return False
    wide = whole(workload)
    return wide.k != workload.k and indexable(wide.x_shape)


@dataclass(frozen=True)
class PaddedProduct:
    """The functions of a template that copies x, and leaves the product to another template.

    inner: the template of the product over whole rows.
    """

    inner: Template

    def space(self, workload: Gemm, target: Target) -> Space[Any]:
        """That of the product over whole rows."""
        return self.inner.space(whole(workload), target)

    def default(self, workload: Gemm, target: Target) -> Any:
        """That of the product over whole rows."""
        return self.inner.default(whole(workload), target)

    def build(self, workload: Gemm, config: Any, target: Target, ahead: int = 0) -> Program:
        """The copy, then the product; parameters x and what else the product takes."""
        wide = whole(workload)
        padded = TensorSpec(_PADDED, wide.x_shape, workload.in_dtype)
        product = self.inner.program(wide, config, target, ahead).renamed({"x": _PADDED})
        copy = Stage(_copy(workload, padded, target), ("x",), (_PADDED,))
        return Program((copy, *product.stages), (Workspace(padded), *product.workspaces))

    def pack(self, workload: Gemm, config: Any, constants: Constants) -> tuple[np.ndarray, ...]:
        """Constants of the product over whole rows."""
        wide = whole(workload)
        weight = np.pad(np.asarray(constants["weight"]), ((0, 0), (0, wide.k - workload.k)))
        return self.inner.pack(wide, config, {**constants, "weight": weight})

    def packed(self, workload: Gemm, config: Any) -> tuple[TensorSpec, ...]:
        """What `pack` gives."""
        return self.inner.packed(whole(workload), config)


def _copy(workload: Gemm, padded: TensorSpec, target: Target) -> PrimFunc:
    """The kernel that copies rows, a thread a word; parameters x and the padded x."""
    (_, row), _ = stored(workload.x_shape, workload.in_dtype)
    (_, wide), _ = stored(padded.shape, padded.dtype)
    words = wide // 4
    functions = DeviceNamespace("padded_rows", _SOURCE, {}, {"ROW": row, "WORDS": words})
    items = workload.m * words

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        item = block * _THREADS + thread
        with builder.If(item < items), builder.Then():
            call(functions.function("copy_word"), *pointers, item // words, item % words)

    return items_kernel([workload.inputs[0], padded], items, _THREADS, target, body)
