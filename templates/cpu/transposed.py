"""Transposition of 16 x 16 elements in registers."""

from __future__ import annotations

from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.templates.cpu.vector import held

SIDE = 16
_ROUNDS = 4
"""log2 of SIDE: so many perfect shuffles of all rows transpose a tile."""


def transposed(rows: list[Expr], dtype: str) -> list[Expr]:
    """The columns of SIDE vectors of SIDE elements."""
    half = SIDE // 2
    for _ in range(_ROUNDS):
        pairs = list(zip(rows[:half], rows[half:], strict=True))
        rows = [held(_interleaved(a, b, k), SIDE, dtype) for a, b in pairs for k in (0, half)]
    return rows


def _interleaved(a: Expr, b: Expr, first: int) -> Expr:
    """Elements of two vectors in turn, half of each from `first` on."""
    order = [i + side for i in range(first, first + SIDE // 2) for side in (0, SIDE)]
    return tirx.Shuffle([a, b], [T.int32(i) for i in order])
