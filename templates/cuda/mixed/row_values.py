"""Arrays of one value a row of the weight, which a kernel has or has not."""

from __future__ import annotations

from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.tirx import Buffer, Var


def row_values(pointer: Var | None, name: str, rows: int, dtype: str, otherwise: Buffer) -> Buffer:
    """The array behind a parameter; `otherwise`, which is not read, for a parameter left out."""
    if pointer is None:
        return otherwise
    return IRBuilder.name(name, T.match_buffer(pointer, (rows,), dtype, align=16))
