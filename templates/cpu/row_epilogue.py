"""The epilogue of a row of y whose sums lie in memory, with the constants of its columns."""

from __future__ import annotations

from collections.abc import Mapping

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.cpu.vector import for_chunks, load, store
from autoq.templates.epilogue.cpu import VectorEpilogue, VectorOperands
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target

_MOST_ELEMENTS = 1 << 31


def finishes_rows(work: Gemm, target: Target) -> bool:
    """Whether `finish_row` knows what follows a product of bytes or float32 on a CPU."""
    epilogue = work.epilogue
    narrow = work.has_four_bits or is_four_bit(epilogue.residual_dtype or "int8")
    if target.kind != "cpu" or narrow or epilogue.table or epilogue.scale_group or epilogue.factor:
        return False
    if work.in_dtype == "float32" and not epilogue.of_convolutions:
        return False
    halves = "float16" in (epilogue.out_dtype, epilogue.residual_dtype)
    if halves and not target.avx2:
        return False
    return max(work.k, work.n) * work.m < _MOST_ELEMENTS


def finish_row(
    work: Gemm, buffers: Mapping[str, Buffer], sums: tuple[Buffer, Expr], row: Expr,
    scalars: Mapping[str, Expr], widest: int,
) -> None:  # fmt: skip
    """The outputs of a row, in vectors of at most `widest` columns.

    buffers: bias, scale, float_bias, row_scale, residual and y, those that there are, and `before`,
    sums [m, n] that are added. sums: a buffer, and where those of the row begin.
    """
    row_scale = T.bind(buffers["row_scale"][row]) if work.epilogue.row_scale else None
    own, base = sums

    def chunk(column: Expr | int, lanes: int) -> None:
        def of(name: str, place: Expr | int) -> Expr | None:
            return load(buffers[name], place, lanes) if name in buffers else None

        at = T.bind(row * work.n + column)
        operands = VectorOperands(
            of("scale", column), row_scale, of("float_bias", column), of("residual", at)
        )
        epilogue = VectorEpilogue(work.epilogue, work.in_dtype, lanes, scalars)
        total = load(own, base + column, lanes) + load(buffers["bias"], column, lanes)
        before = of("before", at)
        total = total if before is None else total + before
        store(buffers["y"], at, epilogue.apply(total, operands), lanes)

    for_chunks(work.n, widest, chunk)
