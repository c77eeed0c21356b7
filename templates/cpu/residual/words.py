"""How integers of these products lie: words of four along k, in rows and in tiles of columns.

The left factor of a product lies in rows of signed bytes, whose words are broadcast; the right one
in tiles of columns, as bytes 128 larger, so that `vpdpbusd` multiplies them as they are. What that
adds to a sum is 128 times the sum of the left factor's row, its negative is called the row's shift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.dot import vnni
from autoq.templates.cpu.vector import splat
from autoq.templates.target import Target

DEPTH = 4
"""Values of k in a word."""
LANES = 16
"""Words of a vector: rows are whole vectors, and tiles a whole number of them wide."""
OFFSET = 128
OFFSETS = -0x7F7F7F80
"""OFFSET in each byte of a word: what turns signed bytes into those of tiles, and back."""


def words_of(k: int) -> int:
    """Words of a row of k values, padded with zeros to whole vectors."""
    return -(-k // (DEPTH * LANES)) * LANES


@dataclass(frozen=True)
class WordTiles:
    """Where `count` columns of k values lie: int32 [tiles, words, columns].

    The bytes of columns behind the last one are anything, those of k behind the last are 128.
    """

    count: int
    k: int
    columns: int

    @property
    def tiles(self) -> int:
        """Tiles that hold every column."""
        return -(-self.count // self.columns)

    @property
    def padded(self) -> int:
        """Columns of all tiles."""
        return self.tiles * self.columns

    @property
    def words(self) -> int:
        """Words of a column."""
        return words_of(self.k)

    def spec(self, name: str) -> TensorSpec:
        """The array."""
        return TensorSpec(name, (self.tiles, self.words, self.columns), "int32")

    def pack(self, values: np.ndarray) -> np.ndarray:
        """int8 values [k, count] in tiles."""
        bytes = np.zeros((self.padded, self.words * DEPTH), np.int8)
        bytes[: self.count, : self.k] = values.T
        words = (bytes.view(np.uint8) ^ OFFSET).view(np.int32)
        tiles = words.reshape(self.tiles, self.columns, self.words)
        return np.ascontiguousarray(tiles.transpose(0, 2, 1))


@dataclass(frozen=True)
class WordDot:
    """`total[lane] += sum of unsigned[lane, i] * signed[lane, i]` over the bytes of words.

    All are vectors of `lanes` int32. registers: vectors that the CPU holds; temporaries: those
    that a step takes besides its operands and the total.
    """

    lanes: int
    registers: int
    temporaries: int
    step: Callable[[Expr, Expr, Expr], Expr]


def word_dot(target: Target) -> WordDot:
    """The fastest one of a CPU."""
    if target.vnni and target.avx512:
        return WordDot(16, 32, 0, _four_at_once)
    if target.avx2:
        lanes = 16 if target.avx512 else 8
        return WordDot(lanes, 2 * lanes, 4, lambda *words: _two_at_once(lanes, *words))
    return WordDot(4, 16, 4, lambda *words: _one_by_one(4, *words))


def _four_at_once(total: Expr, unsigned: Expr, signed: Expr) -> Expr:
    bytes = (T.reinterpret("int8x64", words) for words in (unsigned, signed))
    return vnni("uint8").accumulate(total, *bytes)


def _two_at_once(lanes: int, total: Expr, unsigned: Expr, signed: Expr) -> Expr:
    """Bytes 0 and 2, then 1 and 3, widened to 16 bits."""
    halves = 2 * lanes
    large, small = (
        T.reinterpret(f"uint16x{halves}", unsigned),
        T.reinterpret(f"int16x{halves}", signed),
    )
    eight, unsigned_eight = splat(T.int16(8), halves), splat(T.uint16(8), halves)
    pairs = (
        (large & splat(T.uint16(255), halves), (small << eight) >> eight),
        (large >> unsigned_eight, small >> eight),
    )
    name = {8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}[lanes]
    for one, other in pairs:
        operands = T.reinterpret(f"int16x{halves}", one), other
        total = total + T.call_llvm_pure_intrin(f"int32x{lanes}", name, *operands)
    return total


def _one_by_one(lanes: int, total: Expr, unsigned: Expr, signed: Expr) -> Expr:
    def shift(bits: int) -> Expr:
        return splat(T.int32(bits), lanes)

    for place in range(DEPTH):
        large = (unsigned >> shift(8 * place)) & shift(255)
        total = total + large * ((signed << shift(24 - 8 * place)) >> shift(24))
    return total
