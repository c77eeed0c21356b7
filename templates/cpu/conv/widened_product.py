"""Products whose activations have 4 bits: x becomes bytes in a workspace, and is then multiplied.

The numbers are the same, so that constants and configurations are those of the product of bytes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.storage import BYTE_DTYPES, is_four_bit
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.vector import cast, loop, store
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import Target
from autoq.templates.workload import Constants, Workload

_WIDE = "wide_x"


def in_bytes(workload: Gemm) -> Gemm:
    """The product over activations of bytes."""
    return dataclasses.replace(workload, in_dtype=BYTE_DTYPES[workload.in_dtype])


@dataclass(frozen=True)
class WidenedProduct:
    """The functions of a template that widens x, and leaves the product to a template of bytes.

    inner: the template of the product of bytes.
    """

    inner: Template

    def matches(self, workload: Workload, target: Target) -> bool:
        """Gemm of activations of 4 bits, where outputs have more and the inner template follows."""
        if not isinstance(workload, Gemm) or not is_four_bit(workload.in_dtype):
            return False
        narrow = is_four_bit(workload.epilogue.out_dtype)
        narrow = narrow or is_four_bit(workload.epilogue.residual_dtype)
        return not narrow and self.inner.matches(in_bytes(workload), target)

    def space(self, workload: Gemm, target: Target) -> Space[Any]:
        """That of the product of bytes."""
        return self.inner.space(in_bytes(workload), target)

    def default(self, workload: Gemm, target: Target) -> Any:
        """That of the product of bytes."""
        return self.inner.default(in_bytes(workload), target)

    def build(self, workload: Gemm, config: Any, target: Target) -> Program:
        """x in bytes, then the product; parameters x and what else the product takes."""
        wide = in_bytes(workload)
        product = self.inner.program(wide, config, target).renamed({"x": _WIDE})
        spec = TensorSpec(_WIDE, wide.x_shape, wide.in_dtype)
        first = Stage(_widen(workload, spec), ("x",), (_WIDE,))
        return Program((first, *product.stages), (Workspace(spec), *product.workspaces))

    def pack(self, workload: Gemm, config: Any, constants: Constants) -> tuple[np.ndarray, ...]:
        """Constants of the product of bytes."""
        return self.inner.pack(in_bytes(workload), config, constants)

    def packed(self, workload: Gemm, config: Any) -> tuple[TensorSpec, ...]:
        """What `pack` gives."""
        return self.inner.packed(in_bytes(workload), config)


def _widen(workload: Gemm, wide: TensorSpec) -> PrimFunc:
    """The kernel that widens rows, a task a row; parameters x and the bytes."""
    shape, dtype = workload.inputs[0].stored
    row, k = shape[-1], workload.k
    signed = wide.dtype == "int8"

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        def write(at: Expr | int, nibble: Expr) -> None:
            value = (nibble ^ 8) - 8 if signed else nibble
            store(buffers[_WIDE], task * k + at, cast(value, wide.dtype, 1), 1)

        def byte(index: Expr | int) -> Expr:
            return T.bind(cast(buffers["x"][task * row + index], "int32", 1))

        with loop(k // 2) as pair:
            both = byte(pair)
            write(2 * pair, both & 15)
            write(2 * pair + 1, both >> 4)
        if k % 2:
            write(k - 1, byte(row - 1) & 15)

    return task_kernel([TensorSpec("x", shape, dtype), wide], workload.m, emit)
