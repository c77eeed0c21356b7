"""Operands of MMA atoms as a kernel's registers hold them, and what numpy says of the results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoq.templates.cuda.device.memory.swizzle import shared_image
from autoq.templates.cuda.device.mma.atom import Atom
from autoq.templates.cuda.device.mma.fragments import CHUNK, gather, scatter
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.device.mma.registers import (
    compress,
    from_words,
    metadata_words,
    to_words,
)
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.oracle.random_arrays import random_array

_UNREAD = 0xEEEEEEEE
"""Valid metadata, the last two of every chunk, in threads that the selector leaves out."""

STEPS = 2
"""Products that a kernel adds up."""


@dataclass(frozen=True)
class Case:
    """Operands of an atom's kernel: A [steps, m, k], B [steps, n, k], C [m, n] and the selector."""

    atom: Atom
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    selector: int = 0

    @property
    def expected(self) -> np.ndarray:
        """C + A B^T in float64, or int64; the first product of wgmma overwrites C."""
        wide = np.float64 if self.atom.a_element.floating else np.int64
        products = np.einsum("smk,snk->mn", self.a.astype(wide), self.b.astype(wide))
        return products if isinstance(self.atom, Wgmma) else products + self.c.astype(wide)

    @property
    def bound(self) -> np.ndarray:
        """How far a float may lie off: of every product's magnitude a share for each addition.

        Tensor cores add aligned products and truncate them to 22 bits or more below the largest.
        Behind every product the sum is rounded to the accumulator's type.
        """
        a, b = np.abs(self.a.astype(np.float64)), np.abs(self.b.astype(np.float64))
        size = np.einsum("smk,snk->mn", a, b)
        if isinstance(self.atom, MmaSync):
            size += np.abs(self.c.astype(np.float64))
        exact = 2.0**-11 if self.atom.accumulator == "float16" else 2.0**-24
        return size * (STEPS * exact + STEPS * self.atom.k * _DROPPED[self.atom.a])


# Share of the largest product that is lost where another is aligned to it. FP8 tensor cores of
# Hopper keep 13 bits behind the point.
_DROPPED = {"float16": 2.0**-22, "bfloat16": 2.0**-22, "float8_e4m3fn": 2.0**-13}


def random_case(atom: Atom, rng: np.random.Generator, selector: int = 0) -> Case:
    """Operands over the whole range of integers, or normal ones; A is 2:4 sparse where asked."""
    a = random_array(rng, (STEPS, atom.m, atom.k), atom.a)
    if atom.sparse:
        kept = rng.permuted(np.tile([1, 1, 0, 0], (a.size // CHUNK, 1)), axis=1)
        a = np.where(kept.reshape(a.shape) == 1, a, np.zeros(1, a.dtype))
    b = random_array(rng, (STEPS, atom.n, atom.k), atom.b)
    c = random_array(rng, (atom.m, atom.n), atom.accumulator)
    return Case(atom, a, b, c, selector)


def arrays(case: Case) -> list[np.ndarray]:
    """What the kernel takes: A, B and metadata as uint32 words, C as registers."""
    atom = case.atom
    stored, metadata = case.a, []
    if atom.sparse:
        stored, places = zip(*map(compress, case.a), strict=True)
        fragment = atom.metadata_fragment()
        words = np.stack([metadata_words(one, fragment) for one in places])
        if atom.k == 32:
            words[:, np.arange(atom.threads) % 4 // 2 != case.selector] = _UNREAD
        metadata = [words]
    a = [to_words(gather(one, atom.a_fragment()), atom.a) for one in stored]
    b = [to_words(gather(one, atom.b_fragment()), atom.b) for one in case.b]
    c = gather(case.c, atom.d_fragment())
    c = c[..., 0] if atom.register_dtype == "float32" else to_words(c, atom.accumulator)
    left = np.stack(a) if atom.a_in_registers else image(stored)
    right = np.stack(b) if atom.b_in_registers else image(case.b)
    return [np.ascontiguousarray(item) for item in (left, right, *metadata, c)]


def image(matrices: np.ndarray) -> np.ndarray:
    """Matrices [steps, rows, columns] side by side as uint32 words of swizzled shared memory."""
    rows = np.concatenate(list(matrices), axis=1)
    return shared_image(np.ascontiguousarray(rows).view(np.int8)).view(np.uint32)


def result(case: Case, registers: np.ndarray) -> np.ndarray:
    """The matrix D of what the kernel stored."""
    accumulator = case.atom.accumulator
    words = registers if registers.dtype == np.float32 else registers.view(np.uint32)
    values = words[..., None] if words.dtype == np.float32 else from_words(words, accumulator)
    return scatter(values.reshape(*registers.shape, -1), case.atom.d_fragment())


def wrong(case: Case, d: np.ndarray) -> str | None:
    """What is wrong with a result, None when nothing is."""
    expected = case.expected
    if case.atom.a_element.floating:
        off = np.abs(d.astype(np.float64) - expected)
        bad = ~(off <= case.bound)
    else:
        bad = d != expected.astype(np.int32)
    if not bad.any():
        return None
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{bad.sum()} of {d.size} wrong, first at {first}: {d[first]}, not {expected[first]}"


def outputs(case: Case) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of what the kernel stores."""
    return [((case.atom.threads, case.atom.d_registers), case.atom.register_dtype)]


def name_of(case: Case) -> str:
    """The instruction, where A lies, and the selector where there are two."""
    place = "" if isinstance(case.atom, MmaSync) or not case.atom.a_in_registers else " registers"
    choice = f" selector {case.selector}" if case.atom.sparse and case.atom.k == 32 else ""
    return f"{case.atom}{place}{choice}"


def sampled(found: tuple[Atom, ...]) -> list[Atom]:
    """All mma.sync atoms, and of wgmma's widths those at the ends, an odd one and a middle one."""
    widths = {8, 24, 64, 240, 248, 256}
    return [atom for atom in found if isinstance(atom, MmaSync) or atom.n in widths]


def cases(found: tuple[Atom, ...], seed: int) -> list[Case]:
    """A random case of each sampled atom, of both selectors where it has two."""
    rng = np.random.default_rng(seed)
    made = []
    for atom in sampled(found):
        selectors = (0, 1) if atom.sparse and atom.k == 32 else (0,)
        made += [random_case(atom, rng, selector) for selector in selectors]
    return made
