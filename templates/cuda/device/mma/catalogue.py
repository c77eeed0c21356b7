"""The atoms that each architecture has (PTX ISA: mma, mma.sp, wgmma.mma_async, and their .sp)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import product

from autoq.templates.cuda.device.mma.atom import Atom
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.device.mma.wgmma import FLOATING_N, INTEGER_N, Wgmma
from autoq.templates.target import Target

_BYTES, _NIBBLES = ("int8", "uint8"), ("int4", "uint4")

# Least compute capability, shapes, and whether sparse, for each kind of factors of mma.sync.
_INTEGER_SHAPES = {
    _BYTES: (
        (75, (8, 8, 16), False), (80, (16, 8, 16), False), (80, (16, 8, 32), False),
        (80, (16, 8, 64), True),
    ),
    _NIBBLES: ((75, (8, 8, 32), False), (80, (16, 8, 32), False), (80, (16, 8, 64), False)),
}  # fmt: skip
_FLOATING_SHAPES = {
    ("float16", "float16"): (
        (75, (16, 8, 8), False), (80, (16, 8, 16), False), (80, (16, 8, 32), True),
    ),
    ("float16", "float32"): (
        (75, (16, 8, 8), False), (80, (16, 8, 16), False), (80, (16, 8, 32), True),
    ),
    ("bfloat16", "float32"): (
        (80, (16, 8, 8), False), (80, (16, 8, 16), False), (80, (16, 8, 32), True),
    ),
    ("float8_e4m3fn", "float32"): ((89, (16, 8, 32), False), (89, (16, 8, 64), True)),
}  # fmt: skip


@functools.cache
def mma_sync_atoms(target: Target) -> tuple[MmaSync, ...]:
    """The mma.sync instructions that ptxas takes for a target, dense ones first."""
    found = [atom for least, atom in _mma_sync() if least <= target.compute_capability]
    return tuple(sorted(found, key=lambda atom: atom.sparse))


@functools.cache
def wgmma_atoms(target: Target) -> tuple[Wgmma, ...]:
    """The wgmma instructions of a target, none where it has no wgmma."""
    return tuple(_wgmma()) if target.has_wgmma else ()


def atoms(target: Target) -> tuple[Atom, ...]:
    """Every atom of a target."""
    return (*mma_sync_atoms(target), *wgmma_atoms(target))


def is_native(atom: Atom, target: Target) -> bool:
    """Whether tensor cores multiply these types, instead of a sequence that emulates them.

    mma.sync of 4 bits takes several instructions from sm_90 on, and that of e4m3 converts to f16.
    """
    if atom.a_element.packed:
        return target.has_int4_mma
    if isinstance(atom, MmaSync) and atom.a == "float8_e4m3fn":
        return target.compute_capability == 89
    return True


def largest(target: Target, a: str, b: str, accumulator: str) -> MmaSync:
    """The dense mma.sync of the most products; raises ValueError where the target has none."""
    types = (a, b, accumulator)
    found = [
        atom
        for atom in mma_sync_atoms(target)
        if (atom.a, atom.b, atom.accumulator) == types and not atom.sparse
    ]
    if not found:
        raise ValueError(f"{target.arch} has no mma.sync of {a} and {b} to {accumulator}")
    return max(found, key=lambda atom: atom.m * atom.n * atom.k)


def _mma_sync() -> Iterator[tuple[int, MmaSync]]:
    """Each mma.sync with the least compute capability that has it."""
    for names, shapes in _INTEGER_SHAPES.items():
        for (least, shape, sparse), a, b in product(shapes, names, names):
            yield least, MmaSync(shape, a, b, "int32", sparse)
    for (name, accumulator), shapes in _FLOATING_SHAPES.items():
        for least, shape, sparse in shapes:
            yield least, MmaSync(shape, name, name, accumulator, sparse)


def _wgmma() -> Iterator[Wgmma]:
    """Each wgmma: rows of A of 32 bytes, B's of 64 where A is sparse."""
    for sparse, registers in product((False, True), (False, True)):
        k = 64 if sparse else 32
        for n, a, b in product(INTEGER_N, _BYTES, _BYTES):
            yield Wgmma((64, n, k), a, b, "int32", sparse, registers)
        for n, name in product(FLOATING_N, ("float16", "bfloat16", "float8_e4m3fn")):
            depth = k if name == "float8_e4m3fn" else k // 2
            yield Wgmma((64, n, depth), name, name, "float32", sparse, registers)
