"""Products of lists with tiles of columns, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr

from autoq.templates.cpu.residual.select import WordLists
from autoq.templates.cpu.residual.words import LANES, WordDot, WordTiles
from autoq.templates.cpu.transposed import transposed
from autoq.templates.cpu.vector import held, load, loop, splat, store

_SETS = 2
"""Words of a list that are multiplied at a time: sums of their own hide a product's latency."""


@dataclass(frozen=True)
class ListProduct:
    """`count` vectors of lists times the columns of tiles; a task adds to `block_rows` of sums.

    A block of words along k of a tile stays in the first cache while all rows of a task go over it.
    """

    lists: WordLists
    count: int
    tiles: WordTiles
    block_rows: int
    dot: WordDot

    @property
    def blocks(self) -> int:
        """Tasks of a tile of columns."""
        return -(-self.count // self.block_rows)

    @property
    def tasks(self) -> int:
        """Tasks of the product."""
        return self.blocks * self.tiles.tiles

    def block(self, task: Expr) -> Block:
        """The rows and columns of a task, with room for their sums."""
        first = T.bind(task % self.blocks * self.block_rows)
        rows = T.bind(T.min(self.block_rows, self.count - first))
        sums = T.alloc_buffer((self.block_rows * self.tiles.columns,), "int32")
        return Block(self, T.bind(task // self.blocks), first, rows, sums)


@dataclass(frozen=True)
class Block:
    """Sums int32 [block_rows, columns] of a tile, of which `rows` from `first` on exist."""

    product: ListProduct
    tile: Expr
    first: Expr
    rows: Expr
    sums: Buffer

    def each(self, body: Callable[[Expr, Expr, Expr], None]) -> None:
        """body(row, column, place) for each vector of sums, in rows and columns of the product."""
        lanes, columns = self.product.dot.lanes, self.product.tiles.columns
        with loop(self.rows) as row:
            for at in range(0, columns, lanes):
                place = T.bind(row * columns + at)
                body(T.bind(self.first + row), T.bind(self.tile * columns + at), place)

    def fill(self, value: Callable[[Expr, Expr], Expr]) -> None:
        """Sums begin with what value(row, column) says, vectors."""
        lanes = self.product.dot.lanes
        self.each(lambda row, column, place: store(self.sums, place, value(row, column), lanes))

    def add_lists(self, buffers: Mapping[str, Buffer], tiles: Buffer) -> None:
        """Adds the shifts of the lists and their products with the tile."""
        product = self.product
        lists, lanes = product.lists, product.dot.lanes

        def shift(row: Expr, column: Expr, place: Expr) -> None:
            more = splat(buffers[f"{lists.side}_kept_shift"][row], lanes)
            store(self.sums, place, load(self.sums, place, lanes) + more, lanes)

        self.each(shift)
        ends = buffers[f"{lists.side}_ends"]
        base = T.bind(self.tile * (product.tiles.words * product.tiles.columns))
        with loop(lists.blocks) as block, loop(self.rows) as row:
            at = T.bind((self.first + row) * lists.blocks + block)
            before = T.alloc_buffer((1,), "int32")
            store(before, 0, T.int32(0), 1)
            with T.If(block > 0), T.Then():
                store(before, 0, ends[at - 1], 1)
            start = T.bind(before[0])
            length = T.bind(ends[at] - start)
            with T.If(length > 0), T.Then():
                self._row(buffers, tiles, base, row, (start, length))

    def _row(
        self, buffers: Mapping[str, Buffer], tiles: Buffer, base: Expr, row: Expr,
        part: tuple[Expr, Expr],
    ) -> None:  # fmt: skip
        """Adds the products of a part of a row's list, (start, length)."""
        product, (start, length) = self.product, part
        lists, columns, lanes = product.lists, product.tiles.columns, product.dot.lanes
        first = T.bind((self.first + row) * lists.words + start)
        line = T.bind(row * columns)
        vectors = range(columns // lanes)
        sets = [[T.alloc_buffer((lanes,), "int32") for _ in vectors] for _ in range(_SETS)]
        for number, registers in enumerate(sets):
            for vector, register in enumerate(registers):
                begin = splat(T.int32(0), lanes)
                if not number:
                    begin = load(self.sums, line + vector * lanes, lanes)
                store(register, 0, begin, lanes)

        def add(registers: list[Buffer], at: Expr) -> None:
            word = T.bind(splat(buffers[f"{lists.side}_words"][at], lanes))
            place = T.bind(base + buffers[f"{lists.side}_places"][at] * columns)
            for vector, register in enumerate(registers):
                large = load(tiles, place + vector * lanes, lanes)
                store(register, 0, product.dot.step(load(register, 0, lanes), large, word), lanes)

        with loop(length // _SETS) as index:
            for number, registers in enumerate(sets):
                add(registers, T.bind(first + index * _SETS + number))
        with loop(length % _SETS) as index:
            add(sets[0], T.bind(first + length // _SETS * _SETS + index))
        for vector in vectors:
            total = load(sets[0][vector], 0, lanes)
            for registers in sets[1:]:
                total = total + load(registers[vector], 0, lanes)
            store(self.sums, line + vector * lanes, total, lanes)

    def add_turned(self, other: Buffer, extent: int) -> None:
        """Adds the transpose of int32 [columns of the product, extent]."""
        columns = self.product.tiles.columns
        with loop((self.rows + (LANES - 1)) // LANES) as group, loop(columns // LANES) as vector:
            row, column = T.bind(group * LANES), T.bind(vector * LANES)
            start = T.bind((self.tile * columns + column) * extent + self.first + row)
            lines = [
                held(load(other, start + place * extent, LANES), LANES, "int32")
                for place in range(LANES)
            ]
            for place, line in enumerate(transposed(lines, "int32")):
                at = (row + place) * columns + column
                store(self.sums, at, load(self.sums, at, LANES) + line, LANES)
