"""Blocks of sums to which the products of lists with tiles of columns are added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.residual.select import WordLists
from autoq.templates.cpu.residual.words import LANES, WordDot, WordTiles
from autoq.templates.cpu.transposed import transposed
from autoq.templates.cpu.vector import held, load, loop, splat, store


@dataclass(frozen=True)
class ListSums:
    """Sums of one block, int32 [rows, width]: vectors of lists `first` and on, tiles `tile` and on.

    together: tiles of the block, next to each other; rows: how many vectors of lists there are.
    """

    lists: WordLists
    tiles: WordTiles
    together: int
    dot: WordDot
    first: Expr
    rows: Expr
    tile: Expr
    sums: Buffer

    @property
    def width(self) -> int:
        """Columns of the block."""
        return self.together * self.tiles.columns

    def each(self, body: Callable[[Expr, Expr, Expr], None]) -> None:
        """body(row, column, place) for each vector of sums, in rows and columns of the product."""
        lanes = self.dot.lanes
        with loop(self.rows) as row, loop(self.width // lanes) as vector:
            at = vector * lanes
            column = T.bind(self.tile * self.tiles.columns + at)
            body(T.bind(self.first + row), column, T.bind(row * self.width + at))

    def fill(self, value: Callable[[Expr, Expr], Expr]) -> None:
        """Sums begin with what value(row, column) says, vectors."""
        lanes = self.dot.lanes
        self.each(lambda row, column, place: store(self.sums, place, value(row, column), lanes))

    def shift(self, buffers: Mapping[str, Buffer], row: Expr) -> Expr:
        """What the sums of a list begin with."""
        return splat(buffers[f"{self.lists.side}_kept_shift"][row], self.dot.lanes)

    def add(self, buffers: Mapping[str, Buffer], tiles: Buffer, stride: Expr) -> None:
        """Adds the products of the lists, `stride` blocks of words along k at a time.

        The words of a block stay in the first cache while all rows go over them.
        """
        lists = self.lists
        ends, stride = buffers[f"{lists.side}_ends"], T.bind(stride)
        with loop((lists.blocks + stride - 1) // stride) as turn, loop(self.rows) as row:
            line = T.bind((self.first + row) * lists.blocks)
            block = T.bind(turn * stride)
            before = T.alloc_buffer((1,), "int32")
            store(before, 0, T.int32(0), 1)
            with T.If(block > 0), T.Then():
                store(before, 0, ends[line + block - 1], 1)
            start = T.bind(before[0])
            last = T.min(block + stride, lists.blocks) - 1
            length = T.bind(ends[line + last] - start)
            with T.If(length > 0), T.Then():
                self._row(buffers, tiles, row, start, length)

    def _row(
        self, buffers: Mapping[str, Buffer], tiles: Buffer, row: Expr, start: Expr, length: Expr
    ) -> None:
        """Adds the products of `length` words of a row's list."""
        lists, lanes, columns = self.lists, self.dot.lanes, self.tiles.columns
        tile = self.tiles.words * columns
        base = T.bind(self.tile * tile)
        first = T.bind((self.first + row) * lists.words + start)
        line = T.bind(row * self.width)
        vectors = range(0, self.width, lanes)
        registers = [T.alloc_buffer((lanes,), "int32") for _ in vectors]
        for register, at in zip(registers, vectors, strict=True):
            store(register, 0, load(self.sums, line + at, lanes), lanes)
        with loop(length) as index:
            word = T.bind(splat(buffers[f"{lists.side}_words"][first + index], lanes))
            place = T.bind(base + buffers[f"{lists.side}_places"][first + index] * columns)
            for register, at in zip(registers, vectors, strict=True):
                large = load(tiles, place + (at // columns * tile + at % columns), lanes)
                store(register, 0, self.dot.step(load(register, 0, lanes), large, word), lanes)
        for register, at in zip(registers, vectors, strict=True):
            store(self.sums, line + at, load(register, 0, lanes), lanes)

    def add_turned(self, other: ListSums) -> None:
        """Adds the transpose of the block of the other side."""
        with (
            loop((self.rows + (LANES - 1)) // LANES) as group,
            loop(self.width // LANES) as vector,
        ):
            row, column = T.bind(group * LANES), T.bind(vector * LANES)
            start = T.bind(column * other.width + row)
            lines = [
                held(load(other.sums, start + place * other.width, LANES), LANES, "int32")
                for place in range(LANES)
            ]
            for place, line in enumerate(transposed(lines, "int32")):
                at = (row + place) * self.width + column
                store(self.sums, at, load(self.sums, at, LANES) + line, LANES)


@dataclass(frozen=True)
class SquareBlocks:
    """How y is cut: tasks of up to `together` tiles of columns of b, and as many of rows of a.

    The last tiles move back over what others compute too. lists and tiles are those of a, then b.
    """

    lists: tuple[WordLists, WordLists]
    tiles: tuple[WordTiles, WordTiles]
    together: int
    dot: WordDot

    @property
    def _each(self) -> tuple[int, int]:
        """Tiles of a task along both sides."""
        of_a, of_b = self.tiles
        return min(self.together, of_a.tiles), min(self.together, of_b.tiles)

    @property
    def _counts(self) -> tuple[int, int]:
        """Blocks along both sides."""
        each = self._each
        return (-(-self.tiles[0].tiles // each[0]), -(-self.tiles[1].tiles // each[1]))

    @property
    def tasks(self) -> int:
        """Tasks of y; neighbours have the same columns."""
        rows, columns = self._counts
        return rows * columns

    def sums(self, task: Expr) -> tuple[ListSums, ListSums]:
        """Room for the block of y [rows of a, columns of b] of a task, and for its transpose."""
        of_a, of_b = self.tiles
        rows, columns = self._each
        tile_a = T.bind(T.min(task % self._counts[0] * rows, of_a.tiles - rows))
        tile_b = T.bind(T.min(task // self._counts[0] * columns, of_b.tiles - columns))
        size = rows * of_a.columns * columns * of_b.columns
        mine, turned = T.alloc_buffer((size,), "int32"), T.alloc_buffer((size,), "int32")
        first = T.bind(tile_a * of_a.columns)
        there = T.bind(T.min(of_a.count - first, rows * of_a.columns))
        other = T.bind(tile_b * of_b.columns)
        width = T.int32(columns * of_b.columns)
        return (
            ListSums(self.lists[0], of_b, columns, self.dot, first, there, tile_b, mine),
            ListSums(self.lists[1], of_a, rows, self.dot, other, width, tile_a, turned),
        )
