"""Vector TIR in few words: loads, stores, splats and copies that LLVM turns into one instruction.

Indices are flat: kernels view every buffer as one dimension of elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.target import Target

WIDEST_BYTES = 64


def vector_lanes(target: Target) -> int:
    """4-byte lanes of the widest vector register of a CPU."""
    return 16 if target.avx512 else 8 if target.avx2 else 4


def load(buffer: Buffer, start: Expr | int, lanes: int) -> Expr:
    """`lanes` consecutive elements of a flat buffer."""
    return buffer[T.ramp(start, 1, lanes)] if lanes > 1 else buffer[start]


def store(buffer: Buffer, start: Expr | int, value: Expr, lanes: int) -> None:
    """Writes `lanes` consecutive elements of a flat buffer."""
    T.buffer_store(buffer, value, [T.ramp(start, 1, lanes) if lanes > 1 else start])


def held(value: Expr, lanes: int, dtype: str = "float32") -> Expr:
    """A value of many readers in a register.

    Unlike a bound variable TVM's simplifier does not look into it: chains of those take it minutes.
    """
    register = T.alloc_buffer((lanes,), dtype)
    store(register, 0, value, lanes)
    return load(register, 0, lanes)


def splat(value: Expr, lanes: int) -> Expr:
    """One scalar in every lane."""
    return T.broadcast(value, lanes) if lanes > 1 else value


def cast(value: Expr, dtype: str, lanes: int) -> Expr:
    """Lane-wise conversion; float to int truncates."""
    return T.cast(value, dtype if lanes == 1 else f"{dtype}x{lanes}")


def unfused(value: Expr, lanes: int) -> Expr:
    """A float32 product that LLVM may not contract with the addition behind it.

    TVM compiles with contraction allowed, which would give other bits than numpy.
    """
    dtype = "float32" if lanes == 1 else f"float32x{lanes}"
    return T.call_llvm_pure_intrin(dtype, "llvm.arithmetic.fence", value)


def flat(buffer: Buffer) -> Buffer:
    """A one-dimensional view of a compact buffer."""
    size = math.prod(int(extent) for extent in buffer.shape)
    return T.decl_buffer((size,), buffer.dtype, data=buffer.data)


def loop(extent: int) -> AbstractContextManager[Any]:
    """A serial loop from 0."""
    return T.serial(0, extent)


def tasks_loop(extent: int) -> AbstractContextManager[Any]:
    """A loop shared among threads; a single task does not wake them."""
    return T.parallel(0, extent) if extent > 1 else T.serial(0, extent)


def for_chunks(
    extent: int, widest: int, body: Callable[[Expr | int, int], None], repeatable: bool = True
) -> None:
    """Covers `extent` elements by vectors: body(start, lanes), lanes a power of two <= widest.

    With `repeatable`, the last full vector overlaps the one before it (body must then give the
    same result when it is run twice); else the tail is split into smaller vectors.
    """
    full = extent // widest
    if full:
        with loop(full) as index:
            body(index * widest, widest)
    tail = extent - full * widest
    if tail and full and repeatable:
        body(extent - widest, widest)
        return
    start, lanes = full * widest, widest
    while tail:
        lanes //= 2
        if tail >= lanes:
            body(start, lanes)
            start, tail = start + lanes, tail - lanes
