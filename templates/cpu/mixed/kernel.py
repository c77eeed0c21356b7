"""The kernel of a product in register tiles of float32, around the way that weights are widened."""

from __future__ import annotations

from collections.abc import Sequence

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.mixed.tiles import MixedTiling, Products, emit_block
from autoq.templates.target import Target


def build_products(
    tiling: MixedTiling, packed: Sequence[TensorSpec], target: Target, products: Products
) -> PrimFunc:
    """The kernel; parameters x, what is packed, y. Tasks share rows or columns."""
    workload = tiling.workload
    shares = min(tiling.column_tiles, -(-2 * target.units // tiling.blocks))

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        last = workload.m - tiling.block_rows
        first = T.bind(T.min(task // shares * tiling.block_rows, last))
        emit_block(tiling, buffers, first, T.bind(task % shares), shares, products)

    return task_kernel((*workload.inputs, *packed, *workload.outputs), tiling.blocks * shares, emit)
