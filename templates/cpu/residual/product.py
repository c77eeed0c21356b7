"""Products of rows of words with tiles of words, a register tile at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.residual.words import WordDot, WordTiles
from autoq.templates.cpu.vector import load, loop, splat, store

Store = Callable[[Expr, Expr, Expr, int], None]
"""(row, column, sums, lanes): what becomes of a vector of sums."""


@dataclass(frozen=True)
class Term:
    """Names of a product's arrays: rows of the left factor, their shifts, the right one's tiles."""

    rows: str
    shift: str
    tiles: str


@dataclass(frozen=True)
class RegisterTiles:
    """How the m rows of a product are cut: tasks of `block_tiles` tiles of `tile_rows` each.

    A task computes its rows of one tile of columns; neighbouring tasks have the same one, which
    stays in the core's cache.
    """

    m: int
    tiles: WordTiles
    tile_rows: int
    block_tiles: int
    dot: WordDot

    @property
    def block_rows(self) -> int:
        """Rows of a task."""
        return self.block_tiles * self.tile_rows

    @property
    def blocks(self) -> int:
        """Tasks of a tile of columns."""
        return -(-self.m // self.block_rows)

    @property
    def tasks(self) -> int:
        """Tasks of the product."""
        return self.tiles.tiles * self.blocks

    def emit(
        self,
        buffers: Mapping[str, Buffer],
        task: Expr,
        sums: Sequence[tuple[Sequence[Term], Store]],
    ) -> None:
        """A task; each of the sums of terms goes to its own store, for one register tile each."""
        tile = T.bind(task // self.blocks)
        first = T.bind(task % self.blocks * self.block_rows)
        rows = T.bind(T.min(self.block_rows, self.m - first))
        with loop((rows + (self.tile_rows - 1)) // self.tile_rows) as index:
            row = T.bind(first + index * self.tile_rows)
            rest = self.m % self.tile_rows
            for terms, put in sums:
                if not rest:
                    self._tile(buffers, tile, row, self.tile_rows, terms, put)
                    continue
                with T.If(row + self.tile_rows <= self.m):
                    with T.Then():
                        self._tile(buffers, tile, row, self.tile_rows, terms, put)
                    with T.Else():
                        self._tile(buffers, tile, row, rest, terms, put)

    def _tile(
        self, buffers: Mapping[str, Buffer], tile: Expr, row: Expr, rows: int,
        terms: Sequence[Term], put: Store,
    ) -> None:  # fmt: skip
        dot, lanes, columns = self.dot, self.dot.lanes, self.tiles.columns
        vectors = range(columns // lanes)
        # One buffer a register, so that LLVM finds that they are registers.
        registers = [[T.alloc_buffer((lanes,), "int32") for _ in vectors] for _ in range(rows)]
        for place, sums in enumerate(registers):
            shift = sum((buffers[term.shift][row + place] for term in terms), T.int32(0))
            for register in sums:
                store(register, 0, splat(shift, lanes), lanes)
        words, deep = self.tiles.words, -(-self.tiles.k // 4)
        for term in terms:
            left, right = buffers[term.rows], buffers[term.tiles]
            start, base = T.bind(row * words), T.bind(tile * (words * columns))
            with loop(deep) as word:
                at = base + word * columns
                large = [T.bind(load(right, at + v * lanes, lanes)) for v in vectors]
                for place, sums in enumerate(registers):
                    small = T.bind(splat(left[start + place * words + word], lanes))
                    for register, unsigned in zip(sums, large, strict=True):
                        total = dot.step(load(register, 0, lanes), unsigned, small)
                        store(register, 0, total, lanes)
        for place, sums in enumerate(registers):
            for vector, register in enumerate(sums):
                column = tile * columns + vector * lanes
                put(row + place, T.bind(column), load(register, 0, lanes), lanes)


def stored(array: Buffer, columns: int) -> Store:
    """Keeps sums in an array [rows, columns]."""

    def put(row: Expr, column: Expr, sums: Expr, lanes: int) -> None:
        store(array, row * columns + column, sums, lanes)

    return put
