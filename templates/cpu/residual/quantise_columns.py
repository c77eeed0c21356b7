"""Columns of float32 in integers, with a scale each, from rows to tiles in two walks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.residual.quantise_rows import VectorScale
from autoq.templates.cpu.residual.words import DEPTH, LANES, OFFSETS, WordTiles
from autoq.templates.cpu.vector import held, load, loop, splat, store


@dataclass(frozen=True)
class ColumnQuantisation:
    """The columns of a float32 matrix [k, count] in integers of `bits`, in tiles.

    The arrays are called `name` and what they are. reach: the largest magnitudes of each part of
    the rows, float32 [parts, padded]; values, and rest with `rests`: `tiles`; scale: float32
    [padded], 0 behind the last column; with `magnitudes`: magnitude, sums of magnitudes of the
    columns for each part of the words, int32 [parts, padded].
    """

    name: str
    tiles: WordTiles
    bits: int
    parts: int
    rests: bool
    magnitudes: bool

    @property
    def given(self) -> TensorSpec:
        """The matrix."""
        return TensorSpec(self.name, (self.tiles.k, self.tiles.count), "float32")

    @property
    def reach(self) -> TensorSpec:
        """What the first walk finds."""
        return TensorSpec(f"{self.name}_reach", (self.parts, self.tiles.padded), "float32")

    @property
    def writes(self) -> tuple[TensorSpec, ...]:
        """What the second walk computes."""
        specs = [
            self.tiles.spec(f"{self.name}_values"),
            TensorSpec(f"{self.name}_scale", (self.tiles.padded,), "float32"),
        ]
        if self.rests:
            specs.append(self.tiles.spec(f"{self.name}_rest"))
        if self.magnitudes:
            shape = (self.parts, self.tiles.padded)
            specs.append(TensorSpec(f"{self.name}_magnitude", shape, "int32"))
        return tuple(specs)

    def reach_kernel(self) -> PrimFunc:
        """Parameters: the matrix, `reach`. A task takes a part of the rows."""
        tiles = self.tiles
        share = -(-tiles.k // self.parts)

        def emit(buffers: dict[str, Buffer], task: Expr) -> None:
            matrix, reach = buffers[self.name], buffers[self.reach.name]
            line = T.bind(task * tiles.padded)
            with loop(tiles.padded // LANES) as index:
                store(reach, line + index * LANES, splat(T.float32(0), LANES), LANES)
            first = T.bind(T.min(task * share, tiles.k))
            with loop(T.min(share, tiles.k - first)) as index:
                row = T.bind((first + index) * tiles.count)

                def take(at: Expr | int, value: Expr) -> None:
                    most = load(reach, line + at, LANES)
                    store(reach, line + at, T.max(most, T.abs(value)), LANES)

                self._along(matrix, row, take)

        return task_kernel((self.given, self.reach), self.parts, emit, "quantise_columns_reach")

    def _along(self, matrix: Buffer, row: Expr, body: Callable[[Expr | int, Expr], None]) -> None:
        """body(column, values) for the vectors of a row, zeros behind the last column."""
        whole, rest = divmod(self.tiles.count, LANES)
        if whole:
            with loop(whole) as index:
                body(index * LANES, load(matrix, row + index * LANES, LANES))
        if rest:
            body(whole * LANES, self._tail(matrix, row))

    def _tail(self, matrix: Buffer, row: Expr) -> Expr:
        """The last columns of a row, fewer than a vector."""
        whole, rest = divmod(self.tiles.count, LANES)
        tail = T.alloc_buffer((LANES,), "float32")
        store(tail, 0, splat(T.float32(0), LANES), LANES)
        with loop(rest) as index:
            store(tail, index, matrix[row + whole * LANES + index], 1)
        return load(tail, 0, LANES)

    def kernel(self) -> PrimFunc:
        """Parameters: the matrix, `reach`, `writes`. A task takes a part of the words."""
        tiles = self.tiles
        share = -(-tiles.words // self.parts)

        def emit(buffers: dict[str, Buffer], task: Expr) -> None:
            parts = {name.removeprefix(f"{self.name}_"): part for name, part in buffers.items()}
            inverses = T.alloc_buffer((tiles.padded,), "float32")
            scales = T.alloc_buffer((tiles.padded,), "float32")
            self._scales(parts, inverses, scales, task)
            first = T.bind(T.min(task * share, tiles.words))
            with loop(T.min(share, tiles.words - first)) as index:
                self._word(parts, buffers[self.name], (inverses, scales), first + index, task)

        specs = (self.given, self.reach, *self.writes)
        return task_kernel(specs, self.parts, emit, "quantise_columns")

    def _scales(
        self, parts: dict[str, Buffer], inverses: Buffer, scales: Buffer, task: Expr
    ) -> None:
        """The numbers of all columns, in lines of the task; the first one writes the scales."""
        padded = self.tiles.padded
        with loop(padded // LANES) as index:
            at = T.bind(index * LANES)
            most = load(parts["reach"], at, LANES)
            for part in range(1, self.parts):
                most = T.max(most, load(parts["reach"], part * padded + at, LANES))
            numbers = VectorScale.of(self.bits, held(most, LANES), LANES)
            store(inverses, at, numbers.inverse, LANES)
            store(scales, at, numbers.scale, LANES)
            with T.If(task == 0), T.Then():
                store(parts["scale"], at, numbers.scale, LANES)
            if self.magnitudes:
                zeros = splat(T.int32(0), LANES)
                store(parts["magnitude"], task * padded + at, zeros, LANES)

    def _word(
        self, parts: dict[str, Buffer], matrix: Buffer, lines: tuple[Buffer, Buffer], word: Expr,
        task: Expr,
    ) -> None:  # fmt: skip
        """A word of every column: four rows, or what is left of them."""
        tiles = self.tiles
        word = T.bind(word)
        last, rest = divmod(tiles.k, DEPTH)
        cases = [(word < last, DEPTH)] if last else []
        if rest:
            cases.append((word == last, rest))
        if tiles.words > last + bool(rest):
            cases.append((word >= last + bool(rest), 0))
        for condition, rows in cases:
            with T.If(condition), T.Then():
                self._vectors(parts, matrix, lines, word, task, rows)

    def _vectors(
        self, parts: dict[str, Buffer], matrix: Buffer, lines: tuple[Buffer, Buffer], word: Expr,
        task: Expr, rows: int,
    ) -> None:  # fmt: skip
        """Words of which the first `rows` values exist."""
        tiles = self.tiles
        first = T.bind(word * (DEPTH * tiles.count))

        def vector(column: Expr | int, values: list[Expr]) -> None:
            inverse, scale = (held(load(line, column, LANES), LANES) for line in lines)
            numbers = VectorScale.with_lanes(self.bits, inverse, scale)
            found = [numbers.quantised(value, self.rests) for value in values]
            tile = column // tiles.columns
            at = T.bind((tile * tiles.words + word) * tiles.columns + column % tiles.columns)
            store(parts["values"], at, _word_of([whole for whole, _ in found]), LANES)
            if self.rests:
                store(parts["rest"], at, _word_of([rest for _, rest in found]), LANES)
            if self.magnitudes and found:
                place = task * tiles.padded + column
                total = load(parts["magnitude"], place, LANES)
                for whole, _ in found:
                    total = total + T.abs(whole)
                store(parts["magnitude"], place, total, LANES)

        starts = [first + row * tiles.count for row in range(rows)]
        whole, rest = divmod(tiles.count, LANES)
        if whole:
            with loop(whole) as index:
                at = T.bind(index * LANES)
                vector(at, [load(matrix, start + at, LANES) for start in starts])
        if rest:
            vector(whole * LANES, [self._tail(matrix, start) for start in starts])


def _word_of(values: list[Expr]) -> Expr:
    """int32 values, each in a byte, 128 larger."""
    word = splat(T.int32(OFFSETS), LANES)
    for place, value in enumerate(values):
        byte = (value & splat(T.int32(255), LANES)) << splat(T.int32(8 * place), LANES)
        word = word ^ byte
    return word
